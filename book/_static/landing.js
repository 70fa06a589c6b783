// Of one map of starts: drag the start over the grid and see where the attack ends.  Put into the page by landing.py.
(box, data) => {
  const stage = box.querySelector(".stage");
  const tiles = box.querySelector(".tiles");
  const said = box.querySelector(".said");
  const rows = box.querySelectorAll(".ask tbody tr");
  box.style.setProperty("--strip", `url(${box.querySelector(".strip").src})`);
  box.classList.add("live");
  const [size, edge] = [320, 44];
  const steps = data.grid.length - 1;
  const span = size - 2 * edge;
  const place = (k) => edge + (span * k) / steps;
  let [i, j] = [steps, steps]; // of λ1, of λ2
  let svg = `<svg viewBox="0 0 ${size} ${size}" tabindex="0" role="slider" aria-label="The starting point: arrow keys left and right mix other photographs with the training images, up and down mix noise with photographs" aria-valuemin="0" aria-valuemax="${(steps + 1) ** 2 - 1}">`;
  svg += `<rect x="${edge}" y="${edge}" width="${span}" height="${span}" fill="#f0f0f0" stroke="#767676"/>`;
  for (let a = 0; a <= steps; a++)
    for (let b = 0; b <= steps; b++)
      svg += `<circle cx="${place(a)}" cy="${place(steps - b)}" r="6" fill="${data.colours[a * (steps + 1) + b]}"/>`;
  svg += `<text x="${edge - 30}" y="${edge - 16}" text-anchor="start">other photographs</text>`;
  svg += `<text x="${size - edge + 30}" y="${edge - 16}" text-anchor="end">training images</text>`;
  svg += `<text x="${size / 2}" y="${size - edge + 28}" text-anchor="middle">noise</text>`;
  stage.innerHTML = svg + '<circle class="start" r="12" fill="none" stroke="#1a1a1a" stroke-width="3"/></svg>';
  const map = stage.querySelector("svg");
  const dot = stage.querySelector(".start");
  const percent = (value) => `${Math.round(100 * value)} %`;
  const show = () => {
    const [l1, l2, k] = [data.grid[i], data.grid[j], i * (steps + 1) + j];
    dot.setAttribute("cx", place(i));
    dot.setAttribute("cy", place(steps - j));
    tiles.style.setProperty("--frame", k);
    data.said[k].forEach((values, r) => values.forEach((value, c) => (rows[r].cells[c + 1].textContent = value)));
    const words = `Start: ${percent(l2 * l1)} training image, ${percent(l2 * (1 - l1))} another photograph, ${percent(1 - l2)} noise.`;
    said.textContent = words;
    map.setAttribute("aria-valuenow", k);
    map.setAttribute("aria-valuetext", words);
  };
  const clip = (k) => Math.min(steps, Math.max(0, k));
  const drag = (event) => {
    const where = map.getBoundingClientRect();
    const unit = size / where.width;
    i = clip(Math.round((((event.clientX - where.left) * unit - edge) / span) * steps));
    j = clip(steps - Math.round((((event.clientY - where.top) * unit - edge) / span) * steps));
    show();
  };
  map.addEventListener("pointerdown", (event) => {
    map.setPointerCapture(event.pointerId);
    drag(event);
  });
  map.addEventListener("pointermove", (event) => event.buttons && drag(event));
  map.addEventListener("keydown", (event) => {
    const move = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] }[event.key];
    if (!move) return;
    event.preventDefault();
    [i, j] = [clip(i + move[0]), clip(j + move[1])];
    show();
  });
  box.querySelectorAll("[hidden]").forEach((each) => (each.hidden = false));
  show();
}
