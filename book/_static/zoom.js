// Every figure opens larger: by click, or by Enter or Space on it.  Esc, the button or a click closes; focus returns.
document.addEventListener("DOMContentLoaded", () => {
  const dialog = document.createElement("dialog");
  dialog.className = "zoom-view";
  dialog.innerHTML = '<form method="dialog"><button class="zoom-close">Close</button></form><img alt="">';
  document.body.append(dialog);
  const large = dialog.querySelector("img");
  let opener = null;
  dialog.addEventListener("click", (event) => {
    if (event.target === dialog || event.target === large) dialog.close();
  });
  dialog.addEventListener("close", () => opener.focus()); // Safari does not focus buttons that are clicked

  document.querySelectorAll(".bd-article img").forEach((image) => {
    const link = image.closest("a"); // Sphinx links a picture of given width to its file
    if (image.closest("button, .recon-element, .sd-card") || (link && !link.matches(".image-reference"))) return;
    const button = document.createElement("button");
    button.type = "button";
    button.className = "zoom";
    button.setAttribute("aria-haspopup", "dialog");
    button.setAttribute("aria-label", `Enlarge: ${image.alt}`);
    (link ?? image).replaceWith(button);
    button.append(image);
    button.addEventListener("click", () => {
      opener = button;
      large.src = image.src;
      large.alt = image.alt;
      large.className = image.classList.contains("recon-chart") ? "recon-chart" : "";
      large.style.setProperty("--ratio", image.naturalWidth / image.naturalHeight);
      dialog.setAttribute("aria-label", `Enlarged figure: ${image.alt}`);
      dialog.showModal();
      dialog.scrollTo(0, 0);
    });
  });
});
