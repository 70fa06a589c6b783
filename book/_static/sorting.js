// One order of the results at a time.  See sorting.py.
(part) => {
  part.style.setProperty("--strip", `url(${part.querySelector(".strip").src})`);
  const orders = [...part.querySelectorAll(".order")];
  part.querySelectorAll("input").forEach((input) =>
    input.addEventListener("change", () => orders.forEach((order, k) => (order.hidden = k !== Number(input.value)))),
  );
}
