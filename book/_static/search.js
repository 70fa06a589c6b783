// The search page: sections in which the words stand as a phrase, then those that have them all.
"use strict";
(() => {
  const plain = (text) => text.toLowerCase().replace(/[\u2010-\u2015\u2212]/g, "-").replace(/[\s\u00a0]+/g, " ").trim();
  const box = document.querySelector("#search-results");
  const query = plain((new URLSearchParams(location.search).get("q") ?? "").replace(/["“”]/g, ""));
  if (!box || !query) return;
  // a word counts where one begins, and a number as a whole
  const pattern = (text) =>
    new RegExp(`(?<![\\p{L}\\p{N}.,]|\\p{N}-)${text.replace(/[.*+?^${}()|[\]\\]/g, "\\$&")}(?!\\p{N}|[.,]\\p{N})`, "u");
  const phrase = pattern(query);
  const words = query.split(" ").map(pattern);

  function score({ title, text }) {
    if (phrase.test(plain(title))) return 3;
    if (phrase.test(plain(text))) return 2;
    return words.every((word) => word.test(plain(`${title} ${text}`))) ? 1 : 0;
  }

  function snippet(text) {
    const lower = plain(text);
    const hit = [phrase, ...words].map((each) => each.exec(lower)).find((each) => each);
    const line = document.createElement("p");
    if (!hit) return line.append(text.slice(0, 160)), line;
    const [start, end] = [hit.index, hit.index + hit[0].length];
    const before = text.indexOf(" ", Math.max(0, start - 90));
    const after = text.indexOf(" ", end + 100);
    const mark = document.createElement("mark");
    mark.textContent = text.slice(start, end);
    line.append(start > 90 ? "… " : "", text.slice(start > 90 ? Math.min(before + 1, start) : 0, start), mark);
    line.append(text.slice(end, after < 0 ? undefined : after), after < 0 ? "" : " …");
    return line;
  }

  const found = window.passages.map((each) => [score(each), each]).filter(([points]) => points);
  found.sort(([a], [b]) => b - a);
  const list = document.createElement("ul");
  list.className = "search";
  for (const [, { at, page, title, text }] of found.slice(0, 60)) {
    const item = document.createElement("li");
    const link = document.createElement("a");
    link.href = at;
    link.textContent = title && title !== page ? `${page} – ${title}` : page;
    item.append(link, snippet(text));
    list.append(item);
  }
  const said = document.createElement("p");
  said.setAttribute("role", "status");
  const exact = found.filter(([points]) => points > 1).length;
  said.textContent = found.length
    ? `${found.length} section${found.length > 1 ? "s" : ""}, ${exact} with exactly these words.`
    : "No section has these words.";
  box.replaceChildren(said, list);
  document.querySelectorAll("form.bd-search input").forEach((field) => (field.value = query));
})();
