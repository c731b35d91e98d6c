// Shows the values of curves below the pointer. The page reads well without it.
(function () {
  "use strict";
  var box = document.body.appendChild(document.createElement("div"));
  box.id = "values";
  box.hidden = true;

  function short(value) { return String(Number(value.toPrecision(4))); }

  function nearest(curve, x) {
    var best = null;
    for (var i = 0; i < curve.points.numberOfItems; i++) {
      var p = curve.points.getItem(i);
      if (!best || Math.abs(p.x - x) < Math.abs(best.x - x)) best = p;
    }
    return best;
  }

  document.querySelectorAll(".plot").forEach(function (plot) {
    var svg = plot.ownerSVGElement, axes = plot.dataset.axes.split(" ").map(Number);
    var ruler = plot.appendChild(document.createElementNS(svg.namespaceURI, "path"));
    ruler.setAttribute("class", "ruler");
    function hide() { box.hidden = true; ruler.removeAttribute("d"); }
    svg.addEventListener("pointerleave", hide);
    svg.addEventListener("pointermove", function (event) {
      var at = new DOMPoint(event.clientX, event.clientY).matrixTransform(svg.getScreenCTM().inverse());
      if (at.x < axes[0] || at.x > axes[1]) return hide();
      var x = null, lines = [];
      plot.querySelectorAll("polyline").forEach(function (curve) {
        var p = nearest(curve, at.x);
        if (!p) return;
        if (x === null) x = p.x;
        var below = (p.y - axes[2]) / (axes[3] - axes[2]); // the top, as a share of the height
        lines.push(curve.dataset.name + "  " + short(axes[8]
          ? axes[7] * Math.pow(axes[6] / axes[7], below) : axes[7] - below * (axes[7] - axes[6])));
      });
      if (x === null) return hide();
      var step = axes[4] + (x - axes[0]) / (axes[1] - axes[0]) * (axes[5] - axes[4]);
      box.textContent = plot.dataset.x + "  " + short(step) + "\n" + lines.join("\n");
      box.hidden = false;
      box.style.left = Math.min(event.pageX + 14, window.scrollX + document.documentElement.clientWidth - box.offsetWidth - 4) + "px";
      box.style.top = event.pageY + 14 + "px";
      ruler.setAttribute("d", "M" + x + " " + axes[2] + "V" + axes[3]);
    });
  });
})();
