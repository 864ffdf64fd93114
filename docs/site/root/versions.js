window.VERSIONS = [];
