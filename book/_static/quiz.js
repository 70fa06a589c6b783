// Of one quiz: a choice opens all answers and says whether it was right.  Put into the page by quiz.py.
(quiz) => {
  const cards = [...quiz.querySelectorAll(".card")];
  const again = quiz.querySelector(".again");
  const verdict = quiz.querySelector(".verdict");
  const odd = cards.findIndex((card) => card.dataset.odd === "true") + 1;
  const show = (open) => {
    quiz.classList.toggle("open", open);
    again.hidden = !open;
    cards.forEach((card) => {
      card.querySelector(".answer").hidden = !open;
      if (!open) card.setAttribute("aria-pressed", "false");
    });
  };
  cards.forEach((card) =>
    card.addEventListener("click", () => {
      show(true);
      card.setAttribute("aria-pressed", "true");
      verdict.textContent =
        `${card.dataset.odd === "true" ? "Right" : "No"}: number ${odd} has no training image of its ` +
        "own. Below each: its nearest training image, and the reconstruction\u2019s rank by likeness to one.";
    }),
  );
  again.addEventListener("click", () => {
    show(false);
    verdict.textContent = "";
    cards[0].focus();
  });
}
