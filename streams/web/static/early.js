// Asks for the modules of the page that the address names, before the board's have come: the server names them in the head.

const page = location.hash.match(/^#\/(\w+)/)?.[1];
for (const link of document.querySelectorAll("link[data-pages]")) if (link.dataset.pages.split(" ").includes(page)) link.rel = "modulepreload";
