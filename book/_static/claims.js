// The claims page: chips and a search field above the cards, and a link that opens its card.
document.addEventListener("DOMContentLoaded", () => {
  const claims = [...document.querySelectorAll("details.claim")];
  if (!claims.length) return;
  const kindOf = (claim) => claim.querySelector(".sd-summary-text .chip, summary .chip");
  const kinds = [...new Map(claims.map((c) => [kindOf(c).textContent, kindOf(c).className])).entries()];

  const bar = document.createElement("form");
  bar.className = "claims-bar";
  bar.setAttribute("role", "search");
  bar.innerHTML =
    '<label>Search the claims <input type="search" placeholder="Table 1, separation, §4.3 …"></label>' +
    '<div role="group" aria-label="Verdicts"></div><p role="status"></p>';
  const [field, group, said] = ["input", "div", "p"].map((name) => bar.querySelector(name));
  const chosen = new Set();
  kinds.forEach(([kind, look]) => {
    const button = document.createElement("button");
    const count = claims.filter((c) => kindOf(c).textContent === kind).length;
    button.type = "button";
    button.className = look;
    button.textContent = `${kind} ${count}`;
    button.setAttribute("aria-pressed", "false");
    button.addEventListener("click", () => {
      chosen.has(kind) ? chosen.delete(kind) : chosen.add(kind);
      button.setAttribute("aria-pressed", String(chosen.has(kind)));
      show();
    });
    group.append(button);
  });

  const words = (text) => text.toLowerCase().split(/\s+/).filter(Boolean);
  const show = () => {
    const wanted = words(field.value.replaceAll("§ ", "§"));
    let left = 0;
    claims.forEach((claim) => {
      const text = claim.textContent.toLowerCase().replaceAll("§ ", "§");
      const fits = (!chosen.size || chosen.has(kindOf(claim).textContent)) && wanted.every((w) => text.includes(w));
      claim.hidden = !fits;
      left += fits;
    });
    said.textContent = `${left} of ${claims.length} claims`;
  };
  bar.addEventListener("submit", (event) => event.preventDefault());
  field.addEventListener("input", show);
  claims[0].closest("section").before(bar);
  show();

  const follow = () => {
    const place = document.getElementById(decodeURIComponent(location.hash.slice(1)));
    const claim = place?.closest("details.claim") ?? place?.querySelector?.("details.claim");
    if (!claim || !location.hash.startsWith("#claim-")) return;
    claim.hidden = false;
    claim.open = true;
    claim.scrollIntoView();
    claim.querySelector("summary").focus({ preventScroll: true });
  };
  window.addEventListener("hashchange", follow);
  follow();
});
