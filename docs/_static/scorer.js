// The weights of Sphinx' search; guides come before studies and reference.
var Scorer = {
  score: ([page, title, anchor, description, score]) =>
    score - (/^(studies|paper|reference|protocol|style)/.test(page) ? 8 : 0),
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};
