// Offers the versions that versions.js lists, in the sidebar; a site with one version shows nothing.
addEventListener("DOMContentLoaded", () => {
  const root = new URL(document.documentElement.dataset.content_root || "./", location.href);
  const script = document.createElement("script");
  script.src = new URL("versions.js", root);
  script.onload = () => {
    const sidebar = document.querySelector(".sidebar-brand");
    if (!sidebar || window.VERSIONS.length < 2) return;
    const select = document.createElement("select");
    select.className = "version-switch";
    select.setAttribute("aria-label", "version of the documentation");
    for (const { name, path, here } of window.VERSIONS) select.add(new Option(`version ${name}`, path, here, here));
    select.onchange = () => { location.href = new URL(select.value + "docs/index.html", root); };
    sidebar.after(select);
  };
  document.head.append(script);
});
