/* Shows the page of an action as a dialog over the current page. Without this script, or if the
   request fails, it opens as a page. */
"use strict";

document.addEventListener("click", (event) => {
    const link = event.target.closest("a[data-dialog]");
    const plain = event.button === 0 && !event.ctrlKey && !event.metaKey && !event.shiftKey;
    if (!link || !plain) return;
    event.preventDefault();
    if (link.getAttribute("aria-busy") === "true") return;
    link.setAttribute("aria-busy", "true");
    open(link.href)
        .catch(() => window.location.assign(link.href))
        .finally(() => link.removeAttribute("aria-busy"));
});

async function open(address) {
    const response = await fetch(address, { credentials: "same-origin" });
    if (!response.ok || response.redirected) throw new Error(response.statusText);
    const page = new DOMParser().parseFromString(await response.text(), "text/html");
    const dialog = document.createElement("dialog");
    dialog.className = "msh-modal";
    dialog.setAttribute("aria-labelledby", "dialog-title");
    dialog.append(document.adoptNode(page.getElementById("dialog")));
    const opener = document.activeElement.id;
    dialog.addEventListener("close", () => {
        dialog.remove();
        document.getElementById(opener)?.focus(); // the page may have been refreshed since
    });
    dialog.addEventListener("click", (event) => {
        if (!event.target.closest("[data-close]")) return;
        event.preventDefault();
        dialog.close();
    });
    document.body.append(dialog);
    dialog.showModal();
}

/* What was unfolded stays so when its page refreshes itself. */
let unfolded = [];
document.addEventListener("htmx:beforeSwap", () => {
    unfolded = [...document.querySelectorAll("details[data-kept][open]")].map((one) => one.id);
});
document.addEventListener("htmx:afterSwap", () => {
    for (const id of unfolded) document.getElementById(id)?.setAttribute("open", "");
});

/* The dashboard and the wall refresh themselves. They say since when they are not live if a request
   fails, or if their data is old. If the response is another page, the dashboard is loaded again,
   which leads to the log-in; the wall stays, and says so: nobody may be there to log in. */
const OLD = 30_000; // milliseconds
const LOST = "Connection lost; data may be stale.";
let refreshed = Date.now();

document.addEventListener("htmx:beforeSwap", (event) => {
    const { target, xhr } = event.detail;
    if (!["dashboard", "wall"].includes(target.id)) return;
    if (xhr.status < 400 && xhr.responseText.includes(`id="${target.id}"`)) {
        refreshed = Date.now();
        return stale("");
    }
    event.detail.shouldSwap = false;
    if (xhr.status >= 500) stale(`The MSH answers ${xhr.status}; data may be stale.`);
    else if (target.id === "dashboard") window.location.reload();
    else if (new URL(xhr.responseURL).pathname === target.dataset.login) {
        stale("The session has ended: log in again.");
    } else stale(`The MSH refuses this page (${xhr.status}).`);
});
document.addEventListener("htmx:sendError", () => stale(LOST));
document.addEventListener("htmx:timeout", () => stale(LOST));
setInterval(() => {
    const warning = document.querySelector("[data-stale]");
    if (warning?.hidden && Date.now() - refreshed > OLD) stale(LOST);
}, 1_000);

/* A screen reader is told once: the text changes only with the reason. */
function stale(why) {
    const warning = document.querySelector("[data-stale]");
    if (!warning) return;
    const since = new Date(refreshed).toLocaleTimeString([], { hour12: false });
    const words = why && `${why} Not live since ${since}. Retrying every 10 seconds.`;
    if (warning.textContent !== words) warning.textContent = words;
    warning.hidden = !why;
}

/* Each response of a page that refreshes itself has the menu too, and says which process is silent. */
document.addEventListener("htmx:beforeSwap", (event) => {
    const page = new DOMParser().parseFromString(event.detail.xhr.responseText, "text/html");
    document.title = page.title || document.title;
    for (const shown of document.querySelectorAll("[data-badge], #silent-processes")) {
        const same = shown.id ? `#${shown.id}` : `[data-badge="${CSS.escape(shown.dataset.badge)}"]`;
        const fresh = page.querySelector(same);
        if (fresh && fresh.outerHTML !== shown.outerHTML) shown.replaceWith(document.adoptNode(fresh));
    }
});

/* A button copies an id that a list shows in part. It stands behind the link: in a link it could not
   be reached by keyboard. */
function addCopying(root) {
    for (const shown of root.querySelectorAll("#result_list [data-copy]")) {
        const place = shown.closest("a") || shown;
        if (place.nextElementSibling?.matches(".msh-copy")) continue;
        const button = document.createElement("button");
        button.type = "button";
        button.className = "msh-copy";
        button.title = "Copy";
        button.setAttribute("aria-label", `Copy ${shown.dataset.copy}`);
        button.innerHTML = '<span class="material-symbols-outlined md-18">content_copy</span>';
        button.addEventListener("click", () => {
            navigator.clipboard.writeText(shown.dataset.copy).then(() => (button.title = "Copied"));
        });
        place.after(button);
    }
}
document.addEventListener("DOMContentLoaded", () => addCopying(document));
document.addEventListener("htmx:load", (event) => addCopying(event.target));

/* The retry horizon of an agreement, while its fields are edited. */
document.addEventListener("input", (event) => {
    const field = /^(.*-)(timeout|retries|retry_interval)$/.exec(event.target.name || "");
    if (!field) return;
    const [timeout, retries, interval] = ["timeout", "retries", "retry_interval"].map((name) =>
        Number(document.getElementsByName(field[1] + name)[0].value),
    );
    const shown = event.target.closest(".inline-related, [id]:has([data-horizon])");
    const horizon = shown && shown.querySelector("[data-horizon]");
    if (horizon) horizon.textContent = `${timeout + retries * interval} s`;
});

/* Lists, pages of links and the progress of a bulk job refresh themselves too. A response without
   them means logged out, or that nothing is left. */
document.addEventListener("htmx:beforeSwap", (event) => {
    const { id } = event.detail.target;
    if (!["progress", "live", "result_list"].includes(id)) return;
    const { status, responseText } = event.detail.xhr;
    if (status >= 500 || responseText.includes(`id="${id}"`)) return;
    event.detail.shouldSwap = false;
    window.location.reload();
});

/* A second click does not submit a form again; after the back button, it can be submitted. The
   buttons are disabled after the event: before it, their own value would not be sent. */
document.addEventListener("submit", (event) => {
    if (event.defaultPrevented || event.target.method !== "post") return;
    setTimeout(() => setSent(event.target, true));
});
window.addEventListener("pageshow", () => {
    for (const form of document.querySelectorAll("form[data-sent]")) setSent(form, false);
});

function setSent(form, is) {
    form.toggleAttribute("data-sent", is);
    for (const button of form.querySelectorAll("[type=submit]")) {
        button.disabled = is;
        if (!button.dataset.busy) continue;
        button.dataset.title ??= button.innerHTML;
        if (is) button.textContent = button.dataset.busy;
        else button.innerHTML = button.dataset.title;
    }
}

/* Icons are not read aloud. What unfold makes a click out of can be reached by keyboard, with a name. */
const NAMES = { dock_to_right: "Show or hide the navigation", close: "Close the navigation" };

function nameIcons(root) {
    for (const icon of root.querySelectorAll(".material-symbols-outlined")) {
        const name = icon.hasAttribute("x-on:click") && NAMES[icon.textContent.trim()];
        if (name) icon.setAttribute("aria-label", name);
        else icon.setAttribute("aria-hidden", "true");
    }
    const clicked = "#nav-sidebar [x-on\\:click], h1 ~ [x-on\\:click], #main > :first-child [x-on\\:click]";
    for (const element of root.querySelectorAll(clicked)) {
        if (element.matches("a, button, input, [tabindex]")) continue;
        element.setAttribute("role", "button");
        element.tabIndex = 0;
    }
    root.querySelector("#searchbar-submit")?.setAttribute("aria-label", "Search this list");
    for (const header of root.querySelectorAll("th")) {
        if (!header.textContent.trim() && !header.children.length) header.append(unseen("Actions"));
    }
    root.querySelector("#tabs-items")?.setAttribute("aria-label", "Lists of this kind");
    const home = root.querySelector("#nav-sidebar a.bg-primary-600");
    if (home) home.setAttribute("aria-label", "Dashboard");
}
function unseen(text) {
    const words = document.createElement("span");
    words.className = "sr-only";
    words.textContent = text;
    return words;
}

/* simplebar gives each of its boxes the same name. */
function nameRegions() {
    document.querySelectorAll(".simplebar-content-wrapper[role=region]").forEach((region, i) => {
        const inside = region.closest("#nav-sidebar-apps") ? "Pages" : `Content ${i}`;
        region.setAttribute("aria-label", inside);
    });
}
window.addEventListener("load", () => setTimeout(nameRegions));

/* The search in a choice has no name, and what explains it no role: select2's and Django's scripts
   make them, also on this event. */
function nameSearches() {
    for (const choice of document.querySelectorAll("select.select2-hidden-accessible")) {
        const field = choice.nextElementSibling?.querySelector(".select2-search__field");
        const label = choice.labels[0]?.textContent.replace("*", "").trim();
        if (field && label) field.setAttribute("aria-label", `Search ${label}`);
    }
    for (const help of document.querySelectorAll(".help-tooltip[aria-label]")) {
        help.setAttribute("role", "img");
    }
}
window.addEventListener("load", () => setTimeout(nameSearches));
document.addEventListener("DOMContentLoaded", () => nameIcons(document));
document.addEventListener("htmx:load", (event) => nameIcons(event.target));
document.addEventListener("keydown", (event) => {
    if (!["Enter", " "].includes(event.key) || !event.target.matches("[role=button][x-on\\:click]")) return;
    event.preventDefault();
    event.target.click();
});

/* The form of a page with a reason is not sent without one: what was typed into it stays. The words
   are below the field: at the edge of the window a browser's own would cover its label. */
document.addEventListener("click", (event) => {
    if (!event.target.closest("#submit-row [type=submit]")) return;
    const reason = document.querySelector(".msh-save-reason textarea");
    if (!reason) return;
    const missing = !reason.value.trim();
    reason.setAttribute("aria-invalid", String(missing));
    document.getElementById("reason-missing").hidden = !missing;
    if (!missing) return;
    event.preventDefault();
    reason.value = "";
    reason.setAttribute("aria-describedby", "reason-missing");
    reason.focus();
});
