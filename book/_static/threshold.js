// Of one threshold: drag it, and see how many of each kind lie above.  Put into the page by threshold.py.
(box, data) => {
  const range = box.querySelector("input");
  const said = box.querySelector(".said");
  const stage = box.querySelector(".stage");
  const [width, height, left, right, top, bottom] = [640, 260, 44, 20, 12, 46];
  const x = (ncc) => left + ((ncc - data.low) / (1 - data.low)) * (width - left - right);
  const y = (count) => height - bottom - (count / data.n) * (height - top - bottom);
  const above = (values, cut) => values.filter((value) => value > cut).length;
  const steps = (values) => {
    const points = [[data.low, above(values, data.low)]];
    for (let cut = data.low; cut <= 1; cut += 0.005) points.push([cut, above(values, cut)]);
    return points.map(([ncc, count]) => `${x(ncc).toFixed(1)},${y(count).toFixed(1)}`).join(" ");
  };
  let svg = `<svg viewBox="0 0 ${width} ${height}" role="img" aria-label="Images above the threshold, by threshold">`;
  [0, 0.25, 0.5, 0.75, 1].forEach((share) => {
    const at = y(share * data.n);
    svg += `<line class="grid" x1="${left}" x2="${width - right}" y1="${at}" y2="${at}"/>`;
    svg += `<text x="${left - 6}" y="${at + 4}" text-anchor="end">${Math.round(share * data.n)}</text>`;
  });
  for (let ncc = Math.ceil(data.low * 10) / 10; ncc <= 1.001; ncc += 0.1)
    svg += `<text x="${x(ncc)}" y="${height - bottom + 18}" text-anchor="middle">${ncc.toFixed(1)}</text>`;
  svg += `<text x="${(left + width - right) / 2}" y="${height - 4}" text-anchor="middle">threshold (NCC)</text>`;
  data.kinds.forEach((kind) => {
    svg += `<polyline points="${steps(kind.values)}" fill="none" stroke="${kind.colour}" stroke-width="2.5" stroke-dasharray="${kind.dash}"/>`;
  });
  const key = data.kinds.map(
    ({ colour, label }, k) => `<span><i style="border-top: 3px ${["solid", "dashed", "dotted"][k]} ${colour}"></i>${label}</span>`,
  );
  stage.innerHTML = `${svg}<line class="line" y1="${top}" y2="${height - bottom}"/></svg><p class="key">${key.join(" ")}</p>`;
  stage.hidden = range.hidden = false;
  const line = stage.querySelector(".line");
  const show = () => {
    const cut = Number(range.value);
    line.setAttribute("x1", x(cut));
    line.setAttribute("x2", x(cut));
    const [found, held, free] = data.kinds.map((kind) => above(kind.values, cut));
    const share = found ? Math.min(100, Math.round((100 * Math.max(held, free)) / found)) : null;
    said.textContent =
      `Above ${cut.toFixed(2)}: ${found} of ${data.n} training images are matched, and ${held} of as many held-out images, ` +
      `which nobody trained on. Without an attack it is ${free}` +
      (found ? `: about ${share} % of this count is chance.` : ".");
    range.setAttribute("aria-valuetext", `NCC ${cut.toFixed(2)}: ${found} found, ${free} without an attack`);
  };
  const drag = (event) => {
    const place = stage.querySelector("svg").getBoundingClientRect();
    const at = ((event.clientX - place.left) / place.width) * width;
    range.value = data.low + ((at - left) / (width - left - right)) * (1 - data.low);
    show();
  };
  stage.addEventListener("pointerdown", (event) => {
    stage.setPointerCapture(event.pointerId);
    drag(event);
  });
  stage.addEventListener("pointermove", (event) => event.buttons && drag(event));
  range.addEventListener("input", show);
  show();
}
