// Of one walk: shows the column of the strip that the slider says.  Put into the page by walk.py.
(walk) => {
  const range = walk.querySelector("input");
  const stage = walk.querySelector(".stage");
  const said = range.dataset.said.split("|");
  walk.style.setProperty("--strip", `url(${walk.querySelector(".strip").src})`);
  walk.classList.add("live");
  stage.hidden = range.hidden = false;
  const show = () => {
    stage.style.setProperty("--frame", range.value);
    range.setAttribute("aria-valuetext", said[range.value]);
    walk.querySelector(".said").textContent = said[range.value];
  };
  range.addEventListener("input", show);
  show();
}
