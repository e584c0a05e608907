// theme.js: before anything is drawn: light or dark as was chosen here, else as the system is.
'use strict';
(function () {
  try {
    var kept = localStorage.getItem('theme');
    if (kept === 'light' || kept === 'dark') document.documentElement.dataset.theme = kept;
  } catch (error) { /* Storage is refused: then it is as the system is. */ }
})();
