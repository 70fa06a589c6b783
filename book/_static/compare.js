// Of one element of sliders: each shows as much of its reconstruction as it says.  Put into the page by compare.py.
(all) => {
  all.classList.add("live");
  all.querySelectorAll(".pair").forEach((pair) => {
    const range = pair.querySelector("input");
    const stage = pair.querySelector(".stage");
    range.hidden = false;
    const show = () => {
      stage.style.setProperty("--cut", `${range.value}%`);
      range.setAttribute("aria-valuetext", `${range.value} % reconstruction`);
    };
    range.addEventListener("input", show);
    const drag = (event) => {
      const place = stage.getBoundingClientRect();
      range.value = (100 * (event.clientX - place.left)) / place.width;
      show();
    };
    stage.addEventListener("pointerdown", (event) => {
      event.preventDefault(); // or the browser drags the picture away
      stage.setPointerCapture(event.pointerId);
      drag(event);
    });
    stage.addEventListener("pointermove", (event) => event.buttons && drag(event));
    show();
  });
}
