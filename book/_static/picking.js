// A picked photograph shows its objective beside that of the training images.  See picking.py.
(part) => {
  const said = part.querySelector(".said");
  part.querySelectorAll(".tile").forEach((tile) =>
    tile.addEventListener("click", () => {
      tile.setAttribute("aria-pressed", "true");
      said.textContent = tile.dataset.words;
    }),
  );
}
