// Of one game: judge every reconstruction, then see yourself beside chance and beside the machine.  See guess.py.
(game, data) => {
  const cards = [...game.querySelectorAll(".card")];
  const [done, again, share] = ["done", "again", "share"].map((name) => game.querySelector(`.${name}`));
  const verdict = game.querySelector(".verdict");
  const n = cards.length;
  const says = new Array(n).fill(null);
  const truth = cards.map((card) => card.dataset.true === "1");
  // the probability that n tosses of a coin get at least k right
  const luck = (k) => {
    let [term, sum] = [1, 0];
    for (let i = 0; i <= n; i++) {
      if (i >= k) sum += term;
      term *= (n - i) / (i + 1);
    }
    return sum / 2 ** n;
  };
  const left = () => says.filter((each) => each === null).length;
  const wait = () => {
    done.disabled = left() > 0;
    verdict.textContent = left() ? `${n - left()} of ${n} judged.` : "All judged.";
  };
  const open = (state) => {
    game.classList.toggle("open", state);
    again.hidden = share.hidden = !state;
    done.hidden = state;
    cards.forEach((card) => (card.querySelector(".answer").hidden = !state));
  };
  game.querySelectorAll("[data-live]").forEach((each) => (each.hidden = false));
  cards.forEach((card, i) => {
    const buttons = [...card.querySelectorAll(".choice button")];
    buttons.forEach((button, b) =>
      button.addEventListener("click", () => {
        if (game.classList.contains("open")) return;
        says[i] = b === 0;
        buttons.forEach((each) => each.setAttribute("aria-pressed", String(each === button)));
        wait();
      }),
    );
  });
  done.addEventListener("click", () => {
    const right = says.filter((each, i) => each === truth[i]).length;
    open(true);
    const odds = luck(right);
    const often = odds > 0.995 ? "nearly all" : odds < 0.1 ? `1 of ${Math.round(1 / odds)}` : `${Math.round(100 * odds)} of 100`;
    const called = says.filter((each) => each).length;
    const real = says.filter((each, i) => each && truth[i]).length;
    verdict.textContent =
      `You: ${right} of ${n} right; called real: ${called}, of which ${real} are. ` +
      `A coin gets ${n / 2} on average, and as many as you in ${often} games. ${data.said}`;
    share.href = `#${game.id}=${right}`;
    again.focus();
  });
  again.addEventListener("click", () => {
    says.fill(null);
    game.querySelectorAll("[aria-pressed]").forEach((each) => each.setAttribute("aria-pressed", "false"));
    open(false);
    wait();
    cards[0].querySelector("button").focus();
  });
  wait();
  const sent = new RegExp(`^#${game.id}=(\\d{1,2})$`).exec(location.hash);
  if (sent && Number(sent[1]) <= n) {
    verdict.textContent = `Somebody got ${sent[1]} of ${n} right, and sent you here. Can you do better?`;
    game.scrollIntoView();
  }
}
