// Of one unmixing: every picture is a row of a small matrix times the basis, computed here.  See unmixing.py.
(box, data) => {
  const range = box.querySelector("input");
  const tiles = box.querySelector(".now");
  const canvases = [...tiles.querySelectorAll("canvas")];
  const raw = Uint8Array.from(atob(data.basis), (c) => c.charCodeAt(0));
  const size = raw.length / data.rank;
  const basis = Float32Array.from(raw, (byte) => data.low + (byte / 255) * (data.high - data.low));
  const pixels = size / 3;
  const side = Math.sqrt(pixels);
  const sum = new Float32Array(size);
  const draw = (canvas, row) => {
    sum.fill(0);
    row.forEach((weight, j) => {
      for (let p = 0; p < size; p++) sum[p] += weight * basis[j * size + p];
    });
    let [low, high] = [Infinity, -Infinity];
    for (const value of sum) [low, high] = [Math.min(low, value), Math.max(high, value)];
    const image = new ImageData(side, side);
    for (let p = 0; p < pixels; p++) {
      for (let c = 0; c < 3; c++) image.data[4 * p + c] = (255 * (sum[c * pixels + p] - low)) / (high - low);
      image.data[4 * p + 3] = 255;
    }
    canvas.getContext("2d").putImageData(image, 0, 0);
  };
  const show = () => {
    const at = Number(range.value);
    const k = Math.min(Math.floor(at), data.frames.length - 2);
    const share = at - k;
    const [from, to] = [data.frames[k], data.frames[k + 1]];
    canvases.forEach((canvas, i) => draw(canvas, from[i].map((w, j) => (1 - share) * w + share * to[i][j])));
    const words = data.said[Math.round(at)];
    box.querySelector(".said").textContent = words;
    range.setAttribute("aria-valuetext", words);
  };
  box.querySelectorAll("[hidden]").forEach((each) => (each.hidden = false));
  range.addEventListener("input", show);
  show();
  // on paper: both ends
  [0, data.frames.length - 1].forEach((k) => {
    const row = tiles.cloneNode(true);
    row.className = "tiles paper";
    row.querySelectorAll("canvas").forEach((canvas, i) => draw(canvas, data.frames[k][i]));
    const words = document.createElement("p");
    words.className = "paper what";
    words.textContent = `${data.said[k]}:`;
    range.before(words, row);
  });
}
