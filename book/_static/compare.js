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
    show();
  });
}
