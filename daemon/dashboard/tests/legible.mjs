// Checks that a view can be read at the present width of its page. Returns a list of what is wrong.

const row_most = 480;  // height in px of a table's row, or of a card in its place

export const illegible = (page, narrow) =>
  page.evaluate(({ row_most, narrow }) => {
    const wrong = [];
    const visible = (element) => element.checkVisibility({ visibilityProperty: true }) && element.getBoundingClientRect().width > 2;
    // Words that lie on two lines. A word that is wider than its box must be broken.
    const walker = document.createTreeWalker(document.querySelector("main"), NodeFilter.SHOW_TEXT);
    const range = document.createRange();
    for (let node = walker.nextNode(); node; node = walker.nextNode()) {
      const parent = node.parentElement;
      if (!visible(parent) || parent.closest(".visually-hidden, .log-line, select, dialog")) continue;
      for (const word of node.data.matchAll(/[\p{L}\p{N}]{2,24}/gu)) {
        range.setStart(node, word.index);
        range.setEnd(node, word.index + word[0].length);
        const tops = new Set([...range.getClientRects()].map((box) => Math.round(box.top)));
        if (tops.size > 1) wrong.push(`the word "${word[0]}" is broken, in <${parent.tagName.toLowerCase()} class="${parent.className}">: ${node.data.slice(0, 60)}`);
      }
    }
    for (const row of document.querySelectorAll("main tr, main .virtual-row")) {
      const { height } = row.getBoundingClientRect();
      if (height > row_most) wrong.push(`a row is ${Math.round(height)} px high: ${row.textContent.slice(0, 60)}`);
    }
    for (const box of document.querySelectorAll("main .table-box, main .virtual[role=table]"))
      if (narrow && box.scrollWidth > box.clientWidth) wrong.push(`the table "${box.getAttribute("aria-label")}" is ${box.scrollWidth} px wide in a box of ${box.clientWidth} px`);
    return wrong.slice(0, 5);
  }, { row_most, narrow });
