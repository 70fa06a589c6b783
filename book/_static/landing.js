// Of one map of starts: drag the start over the grid and see where each attack ends.  Put into the page by landing.py.
(box, data) => {
  const stage = box.querySelector(".stage");
  const said = box.querySelector(".said");
  const canvas = box.querySelector(".mixed");
  const [size, edge] = [320, 44];
  const steps = data.grid.length - 1;
  const span = size - 2 * edge;
  const place = (k) => edge + (span * k) / steps;
  let [i, j] = [steps, steps]; // of λ1, of λ2
  let svg = `<svg viewBox="0 0 ${size} ${size}" tabindex="0" role="slider" aria-label="The start: arrow keys left and right mix other photographs with the training images, up and down mix noise with photographs" aria-valuemin="0" aria-valuemax="${(steps + 1) ** 2 - 1}">`;
  svg += `<rect x="${edge}" y="${edge}" width="${span}" height="${span}" fill="#f0f0f0" stroke="#767676"/>`;
  for (let a = 0; a <= steps; a++)
    for (let b = 0; b <= steps; b++) svg += `<circle cx="${place(a)}" cy="${place(steps - b)}" r="3" fill="#767676"/>`;
  svg += `<text x="${edge}" y="${edge - 14}" text-anchor="middle">other photographs</text>`.replace('text-anchor="middle"', 'text-anchor="start" dx="-30"');
  svg += `<text x="${size - edge + 30}" y="${edge - 14}" text-anchor="end">training images</text>`;
  svg += `<text x="${size / 2}" y="${size - edge + 26}" text-anchor="middle">noise</text>`;
  stage.innerHTML = svg + '<circle class="start" r="10" fill="#d55e00" stroke="#fff" stroke-width="2"/></svg>';
  const map = stage.querySelector("svg");
  const dot = stage.querySelector(".start");
  const images = data.images.map((text) => Uint8Array.from(atob(text), (c) => c.charCodeAt(0)));
  const percent = (value) => `${Math.round(100 * value)} %`;
  const show = () => {
    const [l1, l2] = [data.grid[i], data.grid[j]];
    dot.setAttribute("cx", place(i));
    dot.setAttribute("cy", place(steps - j));
    const pixels = images[0].length / 3;
    const side = Math.sqrt(pixels);
    const picture = new ImageData(side, side);
    for (let p = 0; p < pixels; p++) {
      for (let c = 0; c < 3; c++) {
        const [truth, other, noise] = images.map((image) => image[c * pixels + p]);
        picture.data[4 * p + c] = l2 * (l1 * truth + (1 - l1) * other) + (1 - l2) * noise;
      }
      picture.data[4 * p + 3] = 255;
    }
    canvas.getContext("2d").putImageData(picture, 0, 0);
    data.attacks.forEach((attack, a) =>
      attack.distances.forEach((grid, d) => (box.querySelectorAll("tbody tr")[a].cells[d + 1].textContent = grid[i][j].toFixed(1))),
    );
    const words = `Start: ${percent(l2 * l1)} training image, ${percent(l2 * (1 - l1))} another photograph, ${percent(1 - l2)} noise.`;
    said.textContent = words;
    map.setAttribute("aria-valuenow", j * (steps + 1) + i);
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
