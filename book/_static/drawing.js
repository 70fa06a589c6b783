// Of one drawing pad: the gradient of a softmax layer at what is drawn, and eq. (4) to get it back.  See drawing.py.
(box) => {
  const [side, classes] = [16, 10];
  const size = side * side;
  // random numbers that are the same on every visit: a linear congruential generator, two of it make a normal one
  let state = 1;
  const uniform = () => ((state = (1664525 * state + 1013904223) % 4294967296) + 0.5) / 4294967296;
  const normal = () => Math.sqrt(-2 * Math.log(uniform())) * Math.cos(2 * Math.PI * uniform());
  const weights = Array.from({ length: classes * size }, () => normal() / side);
  const others = Array.from({ length: 15 }, () => {
    const [cx, cy, r] = [uniform() * side, uniform() * side, 2 + 4 * uniform()];
    return Float64Array.from({ length: size }, (_, p) => (Math.hypot((p % side) - cx, Math.floor(p / side) - cy) < r ? 1 : 0.1));
  });
  const noise = Array.from({ length: classes * (size + 1) }, normal);
  const face = ["................", "................", "....##....##....", "....##....##....", "................", ".......##.......",
    ".......##.......", "................", "...#........#...", "....#......#....", ".....######.....", "................"];
  const x = new Float64Array(size).fill(0.05);
  const reset = (rows) => {
    x.fill(0.05);
    rows.forEach((row, i) => [...row].forEach((c, j) => (x[(i + 2) * side + j] = c === "#" ? 1 : 0.05)));
  };
  const [pad, seen, back] = ["pad", "seen", "back"].map((name) => box.querySelector(`.${name}`));
  const [batch, sigma] = ["batch", "sigma"].map((name) => box.querySelector(`input[name=${name}]`));
  const said = box.querySelector(".said");
  const paint = (canvas, values, low, high) => {
    const image = new ImageData(side, side);
    for (let p = 0; p < size; p++) {
      image.data.fill((255 * (values[p] - low)) / (high - low), 4 * p, 4 * p + 3);
      image.data[4 * p + 3] = 255;
    }
    canvas.getContext("2d").putImageData(image, 0, 0);
  };
  // d loss / d (weights, bias) of one image with one label
  const addGradient = (sum, image, label, share) => {
    const z = Array.from({ length: classes }, (_, k) => image.reduce((t, v, p) => t + v * weights[k * size + p], 0));
    const top = Math.max(...z);
    const total = z.reduce((t, v) => t + Math.exp(v - top), 0);
    z.forEach((v, k) => {
      const delta = share * (Math.exp(v - top) / total - (k === label ? 1 : 0));
      for (let p = 0; p < size; p++) sum[k * (size + 1) + p] += delta * image[p];
      sum[k * (size + 1) + size] += delta;
    });
  };
  const levels = [0, 0.01, 0.03, 0.1, 0.3, 1, 3, 10];
  let cursor = 0;
  let keys = false;
  const show = () => {
    const n = Number(batch.value);
    const level = levels[Number(sigma.value)];
    const gradient = new Float64Array(classes * (size + 1));
    addGradient(gradient, x, 3, 1 / n);
    for (let i = 1; i < n; i++) addGradient(gradient, others[i - 1], i % classes, 1 / n);
    const norm = Math.sqrt(gradient.reduce((t, v) => t + v * v, 0));
    const each = (level * norm) / Math.sqrt(gradient.length);
    gradient.forEach((v, i) => (gradient[i] = v + each * noise[i]));
    const row = gradient.slice(3 * (size + 1), 4 * (size + 1)); // of the label's unit
    const found = row.slice(0, size).map((v) => v / row[size]);
    const error = found.reduce((t, v, p) => t + (v - x[p]) ** 2, 0) / size;
    paint(pad, x, 0, 1);
    if (keys) {
      const context = pad.getContext("2d");
      context.fillStyle = "#d55e00";
      context.fillRect(cursor % side, Math.floor(cursor / side), 1, 1);
    }
    const largest = Math.max(...row.slice(0, size).map(Math.abs)) || 1;
    paint(seen, row.slice(0, size), -largest, largest);
    paint(back, found, 0, 1);
    const mse = error < 1e-12 ? "0 to the last digit" : error < 1e-3 ? error.toExponential(1) : error.toPrecision(2);
    const noisy = level === 0 ? "no noise" : `noise of ${level} of the gradient\u2019s norm`;
    said.textContent = `Batch of ${n}, ${noisy}: mean squared error ${mse}.`;
    batch.setAttribute("aria-valuetext", `${n} image${n > 1 ? "s" : ""}`);
    sigma.setAttribute("aria-valuetext", `${level} of the norm`);
  };
  let ink = 1;
  let last = 0;
  // a straight stroke: a fast pointer skips pixels between two events
  const stroke = (from, to) => {
    const steps = Math.max(Math.abs((to % side) - (from % side)), Math.abs(Math.floor(to / side) - Math.floor(from / side)));
    for (let k = 0; k <= steps; k++) {
      const between = (a, b) => Math.round(a + ((b - a) * k) / Math.max(1, steps));
      x[between(Math.floor(from / side), Math.floor(to / side)) * side + between(from % side, to % side)] = ink;
    }
    last = to;
    show();
  };
  const at = (event) => {
    const place = pad.getBoundingClientRect();
    const [i, j] = [(event.clientY - place.top) / place.height, (event.clientX - place.left) / place.width];
    return Math.min(side - 1, Math.max(0, Math.floor(i * side))) * side + Math.min(side - 1, Math.max(0, Math.floor(j * side)));
  };
  pad.addEventListener("pointerdown", (event) => {
    pad.setPointerCapture(event.pointerId);
    keys = false;
    ink = x[at(event)] > 0.5 ? 0.05 : 1;
    stroke(at(event), at(event));
  });
  pad.addEventListener("pointermove", (event) => event.buttons && stroke(last, at(event)));
  const moves = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -side, ArrowDown: side };
  pad.addEventListener("keydown", (event) => {
    if (event.key in moves) cursor = (cursor + moves[event.key] + size) % size;
    else if (event.key === " " || event.key === "Enter") x[cursor] = x[cursor] > 0.5 ? 0.05 : 1;
    else return;
    event.preventDefault();
    keys = true;
    show();
  });
  pad.addEventListener("blur", () => {
    keys = false;
    show();
  });
  [batch, sigma].forEach((range) => range.addEventListener("input", show));
  box.querySelector(".clear").addEventListener("click", () => {
    reset([]);
    show();
  });
  box.querySelectorAll("[hidden]").forEach((each) => (each.hidden = false));
  box.querySelector(".plain").hidden = true;
  reset(face);
  show();
}
