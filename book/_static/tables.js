// A table that is wider than the page scrolls; so that the arrow keys can scroll it, it takes the focus while it does.
const focusScrollingTables = () =>
  document.querySelectorAll(".bd-article table").forEach((table) => {
    if (table.scrollWidth > table.clientWidth) table.tabIndex = 0;
    else table.removeAttribute("tabindex");
  });
window.addEventListener("load", focusScrollingTables);
window.addEventListener("resize", focusScrollingTables);
