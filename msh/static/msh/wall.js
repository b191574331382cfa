/* Pages through the rows of the wall that do not fit. The clock says which page: a refresh changes
   nothing, and two screens show the same. */
"use strict";

const SHOWN_FOR = 10_000; // milliseconds

function turnPage() {
    const list = document.getElementById("wall-rows");
    if (!list) return;
    const rows = [...list.children];
    for (const row of rows) row.hidden = false;
    const pages = pagesOf(rows, list);
    const now = Math.floor(Date.now() / SHOWN_FOR) % pages.length;
    const shown = pages[now];
    for (const row of rows) row.hidden = !shown.includes(row);
    const first = rows.indexOf(shown[0]) + 1;
    const words = `${first} to ${first + shown.length - 1} of ${rows.length}, page ${now + 1} of ${pages.length}`;
    document.getElementById("wall-page").textContent = pages.length > 1 ? words : "";
}

/* As many rows a page as are wholly seen, and one at least. */
function pagesOf(rows, list) {
    const pages = [[]];
    let begin = 0;
    for (const row of rows) {
        const page = pages.at(-1);
        if (page.length === 0) begin = row.offsetTop;
        if (page.length > 0 && row.offsetTop + row.offsetHeight - begin > list.clientHeight) {
            pages.push([row]);
            begin = row.offsetTop;
        } else page.push(row);
    }
    return pages;
}

document.addEventListener("DOMContentLoaded", turnPage);
document.addEventListener("htmx:afterSwap", turnPage);
window.addEventListener("resize", turnPage);
setInterval(turnPage, 1_000);
