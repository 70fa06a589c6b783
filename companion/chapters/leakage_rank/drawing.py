"""Draw an image, see its gradient, get it back: eq. (4) in the browser, with a batch and with noise."""

from __future__ import annotations

from companion.chapters.elements import element


def drawing() -> str:
    """The element; its network is one softmax layer with a bias on 16 × 16 pixels, made in the page."""
    body = (
        '<p class="plain ask">A drawing pad is here where scripts are allowed.</p>'
        '<div class="panels" hidden>'
        '<figure><canvas class="pad" width="16" height="16" tabindex="0" role="application" '
        'aria-label="Drawing pad of 16 by 16 pixels: draw with the pointer, or move with the arrow keys and switch a '
        'pixel with Space"></canvas><figcaption><span class="ask">Your image. Draw on it.</span>'
        '<span class="paper">An image.</span></figcaption></figure>'
        '<figure><canvas class="seen" width="16" height="16" role="img" aria-label="One row of the gradient"></canvas>'
        "<figcaption>What is sent: one of ten rows of the gradient of the weights.</figcaption></figure>"
        '<figure><canvas class="back" width="16" height="16" role="img" aria-label="The image got back"></canvas>'
        "<figcaption>That row over its entry of the gradient of the bias: eq. (4).</figcaption></figure></div>"
        '<p class="said" role="status"></p>'
        "<label hidden>Images in the batch: yours and others "
        '<input type="range" name="batch" min="1" max="16" step="1" value="1"></label>'
        "<label hidden>Noise on the gradient "
        '<input type="range" name="sigma" min="0" max="7" step="1" value="0"></label>'
        '<button type="button" class="clear" hidden>Clear the drawing</button>'
    )
    return element(
        "drawing",
        "Draw an image and get it back from its gradient",
        body,
        ask="Draw an image in the left square. Then put other images into the batch, or noise on the gradient.",
        paper="On the web page one draws the image, and can put other images into the batch or noise on the gradient.",
    )
