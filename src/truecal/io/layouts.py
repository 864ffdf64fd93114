"""Where the predictions of a file are: the rules of the documentation, in their order, over roles and values."""

from __future__ import annotations

import itertools
import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from truecal.io.column_rules import (
    BOXES,
    COLUMNS_OPTION,
    HEADER_OPTION,
    LABEL_OPTION,
    LOGITS_OPTION,
    Labels,
    Layout,
    Request,
    check_names,
    is_prediction,
    likeliest_first,
    plain_names,
    present,
    settle,
    shown_columns,
)
from truecal.io.failures import FileError, SeveralModelsError, listing, quote
from truecal.io.roles import (
    FEWEST_DECIDED,
    MOST_DISTINCT,
    NUMBER,
    ROLES,
    VECTOR,
    Facts,
    Forms,
    Meaning,
    Peek,
    Scale,
    above,
    called,
    is_called,
    is_identifier,
    key_of,
    matches,
    meaning,
    peeked,
    polarity,
    says_model,
    says_prediction,
    scale_of,
    stripped,
    sum_to_one,
)

MOST_MODELS = 20
_FIGURE = re.compile(r"[+-]?[0-9]*[.,]?[0-9]+(?:[eE][+-]?[0-9]+)?\s?%?")
_ODDS = re.compile(r"odds?[_.: ](.+)|(.+)[_.: ]odds?", re.IGNORECASE)


def find_layout(
    request: Request, forms: Forms, labels: Labels, what: str, *, elsewhere: bool = False, peek: Peek | None = None
) -> Layout:
    """Find the predictions among the columns or keys."""
    taken = {*labels.names, request.id_column, *(request.label_column or "").split(",")}
    others = {name: form for name, form in forms.items() if name not in taken}
    search = _Search(request, others, what, labels, elsewhere, peek)
    if request.kind == "top_label":
        return search.top_label() or search.nothing()
    if request.proba_columns is not None:
        return search.named(forms)
    if request.odds:
        return search.odds() or search.nothing()
    return (
        search.by_vector_name()
        or search.by_family()
        or search.by_scalar_name()
        or search.by_label_names()
        or (None if request.told else search.top_label())
        or search.by_score()
        or search.refuse_odd()
        or search.only_vector()
        or search.by_weak_name()
        or search.plain_classes()
        or search.nothing()
    )


def unnamed_layout(request: Request, forms: Forms, labels: Labels, what: str) -> Layout:
    """The predictions of an array, or columns, without names: the caller's word, or the default, says what they are."""
    if request.kind in ("top_label", "choices"):
        raise request.refuse(f"expected names of arrays or columns for kind={request.kind!r}, there are none")
    columns = request.proba_columns or tuple(name for name in forms if name != labels.name)
    for name in columns:
        present(request, name, forms, what)
        if forms[name] not in (NUMBER, VECTOR):
            how = "pass labels with labels= (--labels)"
            if what == "column":
                how = f"if it holds the labels, name it with {LABEL_OPTION}; if it has a header, {HEADER_OPTION}"
            raise request.refuse(f"expected predictions (floating-point numbers) in {name}, got {forms[name]}: {how}")
    scale, sure = settle(request, None, "")
    why = "without a name" if what == "key" else "there is no header"
    return Layout(scale, columns, sure=sure, note=f"{scale} from {shown_columns(columns, what)} ({why})")


@dataclass(frozen=True)
class _Search:
    """The rules, in the order of the documentation; each gives a Layout, or None where it finds nothing."""

    request: Request
    forms: Forms  # without the labels
    what: str
    labels: Labels = field(default_factory=Labels)
    elsewhere: bool = False
    peek: Peek | None = None

    def named(self, everything: Forms) -> Layout:
        """The columns that the caller named; also the label's own, if that is what they say."""
        wanted = self.request.proba_columns or ()
        check_names(self.request.path, wanted, "proba_columns")
        for name in wanted:
            present(self.request, name, everything, self.what)
        said = {scale_of(name) for name in wanted}
        classes = None if len(wanted) == 1 else self._class_names(wanted) or wanted
        if self.request.odds and classes is not None:
            classes = _odds_names(classes)
        one = len(wanted) == 1 and self.request.told is None and everything[wanted[0]] == NUMBER
        if one and not self._marks() and self._is_confidence(wanted[0]):
            return self.top_label() or self.nothing()
        return self._found(wanted, "named by proba_columns", said.pop() if len(said) == 1 else None, classes)

    def by_vector_name(self) -> Layout | None:
        """One column of vectors (or one array) called probs, class_probabilities, ..., or logits."""
        said = {n: found for n in self._having(VECTOR) if (found := meaning(n)) is not None and not self._sampled(n)}
        bare = {n: found for n, found in said.items() if found.family[1] == "alone"} or said
        name = self._choose(*([n for n, m in bare.items() if m.scale == s] for s in ("probabilities", "logits")))
        return None if name is None else self._found([name], "by its name", scale_of(name))

    def by_family(self) -> Layout | None:
        """Two columns or more whose names differ by the class: prob_cat, cat_prob, P(x=cat), logit_cat, score_cat."""
        said = {n: means for n, form in self.forms.items() if (means := meaning(n)) and means.rest and form != VECTOR}
        said = {n: m for n, m in said.items() if self.forms[n] == NUMBER or (m.scale and m.word != "p")}
        said |= self._called_as_noise(said)
        columns = {key_of(n) for n in (*self.forms, *self.labels.names)}
        others = {n: m for n, m in said.items() if m.family[1] != "after" or key_of(m.rest) not in columns}
        if not sum_to_one(self._facts(said), list(said)):  # p_churn beside churn is no class
            said = others or said
        found: dict[tuple[str, ...], dict[str, Meaning]] = {}
        for name, means in said.items():
            found.setdefault(means.family, {})[name] = means
        found = {key: m for key, m in found.items() if len(m) > 1 and any(map(self._has_numbers, m))}
        found = {key: members for key, members in found.items() if self._is_family(key, members)}
        if any(m.scale == "probabilities" and self.forms[n] == NUMBER for n, m in said.items()):
            found = {key: members for key, members in found.items() if key[0] in ("probabilities", "logits")}
        sure = {key: members for key, members in found.items() if key[0] in ("probabilities", "logits")}
        found = sure or {key: members for key, members in found.items() if key[0] == "score"} or found
        told = self.request.told
        wanted = {key: m for key, m in found.items() if told is None or key[0] in (told, "score", "weak")}
        if len(wanted) > 1:
            shown = " and ".join(listing(members, 2) for members in wanted.values())
            how = f"name the columns with {COLUMNS_OPTION}, or pass {LOGITS_OPTION} or kind='probabilities'"
            raise self.request.refuse(f"expected one set of prediction columns, found {shown}: {how}")
        if not wanted:
            for members in found.values():  # the only family says the opposite of what the caller said
                means = next(iter(members.values()))
                settle(self.request, means.scale, f"the column prefix {quote(means.word)}")
            return None
        _, members = wanted.popitem()
        means = next(iter(members.values()))
        where = "suffix" if means.family[1] == "before" else "prefix"
        classes = tuple(each.rest for each in members.values())
        check_names(self.request.path, classes, "class")
        return self._found(tuple(members), f"by the {where} {quote(means.word)}", means.scale, classes)

    def _called_as_noise(self, said: Mapping[str, Meaning]) -> dict[str, Meaning]:
        """The class of a family whose name is a word that other names have for nothing, as Average: without it the
        family does not sum to 1."""
        for name in self._having(NUMBER):
            means = meaning(name)
            text = "" if means is None or means.rest else name[name.lower().find(means.word) + len(means.word) :]
            if means is None or not text:
                continue
            family = (means.said, "after", means.word)
            members = [other for other, each in said.items() if each.family == family]
            facts = self._facts([*members, name])
            if members and not sum_to_one(facts, members) and sum_to_one(facts, [*members, name]):
                return {name: means._replace(rest=text.strip(" _.:()"), family=family)}
        return {}

    def _has_numbers(self, name: str) -> bool:
        """Whether a column has numbers, or text with numbers among it, so that a typo in it is worth a message."""
        found = None if self.forms[name] == NUMBER or self.peek is None else self.peek([name])
        return found is None or any(_FIGURE.fullmatch(str(value).strip()) for value in found.get(name, ()))

    def _is_family(self, key: tuple[str, ...], members: dict[str, Meaning]) -> bool:
        """Whether columns are the classes of one model: by a prefix that says so, or because they sum to 1."""
        facts = self._facts(members)
        if not facts or any(each.numbers is None for each in facts.values()):  # a later check has more to say
            return key[1] == "after" and key[0] != "weak"
        if key[0] == "logits":
            return True
        if sum_to_one(facts, list(members)) or self._named_as_labels([means.rest for means in members.values()]):
            return True
        fractions = [f for f in facts.values() if f.numbers is not None]
        rough = bool(fractions) and abs(sum(float(f.numbers.mean()) for f in fractions) % 99 - 1) < 0.1
        if 0 < len(self._own_targets(list(members))) < len(members) or self._classes_of_a_model(list(members)):
            return False
        return key[0] != "weak" and (rough or (key[1] == "after" and not self._two_valued(any_column=True)))

    def _named_as_labels(self, classes: Sequence[str]) -> bool:
        names = self.labels.names or [n for n, form in self.forms.items() if form not in (NUMBER, VECTOR)]
        facts = peeked(self.peek, names)
        return any(matches(each.distinct, classes) for each in facts.values() if len(each.distinct) > 1)

    def _two_valued(self, any_column: bool = False) -> bool:
        """Whether the labels have two values, so that three columns or more cannot be their classes; or, where no name
        says labels, whether any column has."""
        names = self.labels.names[:1] or (tuple(n for n in self.forms if not is_prediction(n)) if any_column else ())
        return any(len(each.distinct) == 2 for each in peeked(self.peek, names).values())

    def by_scalar_name(self) -> Layout | None:
        """One number per row called prob, y_proba, churn_probability, ...: that of class 1 of two, or of its class."""
        usable = [n for n in self._having(NUMBER) if not is_called(n, "confidence") and not is_identifier(n)]
        said = {n: found for n in usable if (found := meaning(n)) is not None and found.scale is not None}
        weak = called(usable, "weak label") if not self.labels.names else []
        if plain_names(
            n for n in usable if n not in said and n not in weak
        ):  # p counts when nothing else could be a class
            said = {n: found for n, found in said.items() if n.lower() != "p"}
        alone = {n: m for n, m in said.items() if not m.rest or polarity(m.rest)}
        alone = {} if len(alone) > 1 or self._own_targets(list(said)) else alone
        facts = self._facts(said) if not alone else {}
        alone = alone or {n: m for n, m in said.items() if n not in facts or facts[n].in_unit or m.scale == "logits"}
        if self._marks() and len(alone) == 1 and not self.labels.names and not self._marks_by_labels():
            return None  # with what marks right answers it is a confidence
        name = self._choose(*([n for n, m in alone.items() if m.scale == s] for s in ("probabilities", "logits")))
        if name is None or self._is_confidence(name):
            return None
        layout = self._found([name], "by its name", scale_of(name), of=f" of class {alone[name].rest or 1}")
        return self._exponent(layout, alone[name])

    def _is_confidence(self, name: str) -> bool:
        """Whether numbers are of the predicted class: never below 1/k, also where class 0 of two is predicted."""
        labels = peeked(self.peek, self.labels.names)
        own = self._facts([name]).get(name)
        if own is not None and own.in_unit and own.numbers.min(initial=1) < 0.5 and self._two_valued():
            return False
        facts = self._facts([name, prediction]) if (prediction := self._prediction(name)) is not None else {}
        if len(facts) < 2 or not facts[name].in_unit or self.forms[name] != NUMBER:
            return False
        predicted = facts[prediction or ""].distinct
        written = frozenset[str]().union(*(each.distinct for each in labels.values()))
        k = len(predicted | written) if predicted & written else len(predicted)
        never_below = bool(facts[name].numbers.min() >= 1 / max(k, 2) - 1e-9) and len(predicted) > 1
        return (never_below and facts[name].rows >= 10) or 2 < k <= MOST_DISTINCT

    def _exponent(self, layout: Layout, means: Meaning) -> Layout:
        """One logarithm of a probability per row is no logit of two classes."""
        if not means.log:
            return replace(layout, of=means.rest)
        note = layout.note.replace("logits", "probabilities, exp of the log-probabilities", 1)
        return replace(layout, kind="probabilities", of=means.rest, log=True, note=note)

    def _marks(self) -> list[str]:
        """The columns that say whether the model was right: called so, and no names of classes."""
        named = called(self.forms, "correct")
        facts = self._facts(named)
        return [n for n in named if n not in facts or not facts[n].are_names]

    def _marks_by_labels(self) -> bool:
        """Whether a column of labels is there that predicted labels equal in the rows that are marked as right."""
        names = [n for n, form in self.forms.items() if form != VECTOR]
        rows = None if self.peek is None else self.peek(names)
        said = [n for n in names if is_prediction(n)]
        if not rows or not said:
            return False
        texts = {name: list(map(str, values)) for name, values in rows.items()}
        right = [polarity(text) for text in texts[self._marks()[0]]]
        others = [n for n in names if n not in said and len(set(texts[n])) > 1]
        equal = ([a == b for a, b in zip(texts[p], texts[n], strict=True)] for p in said for n in others)
        return any(each == right for each in equal)

    def odds(self) -> Layout | None:
        """Two columns or more called odds_home, odds_away, ... or home_odds, away_odds, ..."""
        found = [name for name in self.forms if _ODDS.fullmatch(name)]
        if len(found) < 2:
            return None
        return self._found(found, "by the word odds", None, _odds_names(found))

    def top_label(self) -> Layout | None:
        """(label, prediction, confidence) or (correct, confidence)."""
        confidence = self._only([n for n in called(self.forms, "confidence") if self.forms[n] == NUMBER], "confidence")
        correct = self._only(self._marks(), "correct")
        if (columns := self.request.proba_columns) is not None:
            if len(columns) != 1:
                shown = f"{COLUMNS_OPTION} names {listing(columns)}"
                raise self.request.refuse(f"expected one confidence {self.what}, {shown}")
            confidence = present(self.request, columns[0], self.forms, self.what)
        if confidence is None and correct is not None:
            said = [n for n in self._having(NUMBER) if (m := meaning(n)) is not None and m.said != "weak"]
            confidence = said[0] if len(said) == 1 else None
        elif confidence is None:
            confidence = next((n for n in self._having(NUMBER) if meaning(n) and self._is_confidence(n)), None)
        if confidence is None:
            return None
        prediction = None if correct is not None else self._prediction(confidence, one=True)
        if correct is None and prediction is None and self._is_of_one(confidence):
            return self._found([confidence], "no predicted labels are beside it", None, of=" of class 1")
        if correct is None and prediction is None:
            wanted = f"{' or '.join(ROLES['correct'][:2])}, or {', '.join(ROLES['prediction'][:6])} with a label"
            found = listing(self.forms)
            raise self.request.refuse(f"expected with {quote(confidence)} a {self.what} {wanted}, found {found}")
        if prediction is not None and (one := self._decides(confidence, prediction)) is not None:
            why = f"by its name; {quote(prediction)} says whether it is above a threshold"
            return replace(self._found([confidence], why, None, of=f" of class {one}"), of=one)
        source = f"hits from {quote(correct)}" if correct is not None else f"predicted labels from {quote(prediction)}"
        shown = shown_columns([confidence], self.what)
        note = f"confidence from {shown}, {source} (by their names): only confidence errors apply"
        means = meaning(confidence)
        log = means is not None and means.log
        note += "; exp of the log-probabilities" if log else ""
        return Layout("top_label", (), None, True, prediction, confidence, correct, note, log=log)

    def _is_of_one(self, name: str) -> bool:
        """Whether numbers are the probability of one class: there are two, and they fall below 1/2."""
        own = self._facts([name]).get(name)
        low = own is not None and own.in_unit and own.rows >= FEWEST_DECIDED and float(own.numbers.min()) < 0.5
        return low and (self._two_valued() or self.elsewhere)

    def _decides(self, name: str, prediction: str) -> str | None:
        """The class of two that is predicted where a number is above a threshold, so that the number is of it."""
        found = None if self.peek is None else self.peek([name, prediction])
        facts = self._facts([name])
        if found is None or not facts[name].in_unit or facts[name].missing or facts[name].numbers.min() >= 0.5:
            return None
        p, said = facts[name].numbers, set(map(str, found[prediction]))
        if len(said) == 1 and p.max() < 0.5 and len(p) >= FEWEST_DECIDED:  # of the class that is never predicted
            labels = peeked(self.peek, self.labels.names[:1])
            others = [v for each in labels.values() for v in each.distinct if v not in said]
            return others[0] if len(others) == 1 else None
        return above(p, found[prediction])

    def _prediction(self, confidence: str | None = None, one: bool = False) -> str | None:
        """The column of predicted labels: by its name, where its values are no fractions; `one`: it has to be one."""
        named = called(self.forms, "prediction") or [n for n in self.forms if is_prediction(n)]
        facts = self._facts(named)
        found = [n for n in named if n not in facts or facts[n].numbers is None or facts[n].whole]
        found = [n for n in found if self.forms[n] != VECTOR and not is_called(n, "confidence")]
        if not found and len(self.labels.names) > 1 and is_called(self.labels.names[0], "truth"):
            found = [n for n in self.labels.names if not is_called(n, "truth")]
        elif not found and confidence is not None and self._is_of_predicted(confidence):
            found = list(self.labels.names[1:])  # a row is a hit where both are equal, whichever is predicted
        if len(found) > 1 and confidence is not None and (said := meaning(confidence)) is not None:
            found = [n for n in found if (m := meaning(n)) is not None and m.rest == said.rest] or found
        if len(found) > 1:  # in two codings: that of the labels
            written = frozenset[str]().union(*(f.distinct for f in peeked(self.peek, self.labels.names).values()))
            coded = [n for n in found if n in facts and facts[n].distinct & written]
            found = coded if len(coded) == 1 else found
        if len(found) > 1 and one:
            said_all = [n for n in self._having(NUMBER) if (m := meaning(n)) is not None and m.said != "score"]
            how = f": name the numbers of one with {COLUMNS_OPTION}, such as {quote(said_all[0])}" if said_all else ""
            raise self.request.refuse(f"expected one {self.what} of predicted labels, found {listing(found)}{how}")
        return found[0] if found else None

    def _is_of_predicted(self, name: str) -> bool:
        """Whether numbers are never below 1/2, beside two columns of the same labels that differ in some rows."""
        own, names = self._facts([name]).get(name), self.labels.names
        rows = None if self.peek is None or len(names) != 2 else self.peek(names)
        if not rows or own is None or not own.in_unit or own.rows < FEWEST_DECIDED or own.numbers.min() < 0.5:
            return False
        first, second = (list(map(str, values)) for values in rows.values())
        return first != second and set(first) == set(second)

    def by_score(self) -> Layout | None:
        """One column of vectors, or of numbers where nothing else could be a class, called score, y_score, ..."""
        vectors, numbers = (
            [n for n in self._having(form) if (m := meaning(n)) is not None and m.said == "score"]
            for form in (VECTOR, NUMBER)
        )
        others = plain_names(name for name in self._having(NUMBER) if name not in numbers)
        if not set(others) <= set(called(others, "weak label")):  # some of which may be features
            decided = [n for n in numbers if any(self._decides(n, said) for said in self.forms if is_prediction(said))]
            numbers = [n for n in numbers if n in decided or says_prediction(n)]
            numbers = [n for n, f in self._facts(numbers).items() if f.is_fraction]
        found = vectors or [n for n in numbers if not is_called(n, "confidence")]
        if len(found) > 1:
            raise self._several(found)
        if not found or (not vectors and self._is_confidence(found[0])):
            return None
        return self._found(found, "by its name", None, of="" if vectors else " of class 1")

    def refuse_odd(self) -> Layout | None:
        """A column or key whose name says predictions and that holds none: nothing else may take its place unasked."""
        for name, form in self.forms.items():
            means = meaning(name)
            if means is None or means.scale is None or means.rest or name.lower() == "p" or form in (NUMBER, VECTOR):
                continue
            wanted = f"numbers, one per row or of shape (rows, classes), in the {self.what} {quote(name)}"
            raise self.request.refuse(f"expected {wanted}, it holds {form}")
        return None

    def only_vector(self) -> Layout | None:
        """The only column of vectors (or the only matrix), whatever its name."""
        found = self._having(VECTOR)
        if not found:
            return None
        if len(found) > 1:
            raise self._several(found)
        if self.request.told is None and self._sampled(found[0]):
            how = f"{_samples_command(found[0])}; if these are probabilities, name them with {COLUMNS_OPTION}"
            raise self.request.refuse(f"the {self.what} {quote(found[0])} looks like sampled answers: {how}")
        return self._found(found, "the only one with a vector per row", scale_of(found[0]))

    def _sampled(self, name: str) -> bool:
        return is_called(name, "samples")

    def by_weak_name(self) -> Layout | None:
        """One column of fractions called prediction, y_pred, oof, ..., or the only one beside labels elsewhere."""
        numbers = [n for n in self._having(NUMBER) if not is_identifier(n)]
        facts = self._facts(numbers)
        fractions = [n for n in numbers if n in facts and facts[n].is_fraction]
        found = [n for n in fractions if is_prediction(n) or ((m := meaning(n)) is not None and m.said == "weak")]
        scores = [n for n in fractions if (m := meaning(n)) is not None and m.said == "score"]
        if len(found) > 1 or (found and scores):
            raise self._several([*found, *scores])
        unnamed = len(numbers) == 1 and bool(re.fullmatch("arr_[0-9]+", numbers[0])) and bool(self.labels.names)
        if not found and unnamed:  # as numpy.savez calls arrays without a name
            return self._found(numbers, "the only one with a number per row", None, of=" of class 1")
        if not found and self.elsewhere and len(fractions) == 1 and set(plain_names(numbers)) <= {fractions[0]}:
            return self._found(fractions, "the only column of fractions", None, of=" of class 1")
        return replace(self._found(found, "by its name", None, of=" of class 1"), weak=True) if found else None

    def by_label_names(self) -> Layout | None:
        """Columns that are called as the labels are, or as their column with each label, and that sum to 1."""
        numbers = [n for n in self._having(NUMBER) if not is_identifier(n)]
        labels = [*self.labels.names, *(n for n in self.forms if n not in numbers and self.forms[n] != VECTOR)]
        written = {
            name: f.distinct for name, f in peeked(self.peek, [*labels, *numbers]).items() if len(f.distinct) > 1
        }
        facts = self._facts(numbers)
        for name, values in written.items():
            if len(values) > MOST_DISTINCT or (name in facts and facts[name].is_fraction):
                continue
            of = {key_of(text): value for value in values for text in (value, f"{name}{value}")}
            columns = tuple(n for n in numbers if key_of(n) in of and facts[n].in_unit and n != name)
            if sum_to_one(facts, columns) and len({of[key_of(n)] for n in columns}) == len(columns):
                return self._found(columns, f"named as {quote(name)} is", None, tuple(of[key_of(n)] for n in columns))
        return None

    def plain_classes(self) -> Layout | None:
        """Columns of numbers named as the classes are: the labels say so, or they sum to 1 and no other is left."""
        found = plain_names(self._having(NUMBER))
        why = "the numeric columns besides the labels, one per class"
        if len(found) < 2 or self.peek is None:
            return self._found(found, why, None, found) if len(found) > 1 else None
        facts = self._facts(found)
        weak = [n for n in called(found, "weak label") if n in facts and facts[n].may_be_label and facts[n].whole]
        found = found if self.labels.names or self.elsewhere else tuple(n for n in found if n not in weak)
        texts = [n for n, form in self.forms.items() if form != NUMBER and form != VECTOR and not is_identifier(n)]
        values = [f.distinct for f in peeked(self.peek, [*self.labels.names, *texts]).values() if f.distinct]
        if not facts or sum_to_one(facts, found) or _may_sum(facts, found) or self.request.told == "logits":
            return self._found(found, why, None, found) if len(found) > 1 else None
        unit = tuple(n for n in found if facts[n].in_unit)
        if sum_to_one(facts, unit) and any(matches(v, unit) for v in values if len(v) > 1):
            return self._found(unit, "named as the labels are", None, unit)
        if any(matches(v, found) for v in values) and not any(facts[n].whole and facts[n].rows > 4 for n in found):
            return self._found(found, why, None, found)
        return None

    def nothing(self) -> Layout:
        wanted = f"predictions: a {self.what} called probs or logits, or {self.what}s such as prob_a, prob_b"
        if self.request.odds:
            wanted = "columns such as odds_home, odds_draw, odds_away"
        if self.request.kind == "top_label":
            wanted = f"a confidence {self.what} ({', '.join(ROLES['confidence'][:4])})"
        answers = next((name for name in self.forms if self._sampled(name)), None)
        how = self._other_file() or self._command() or f"name them with {COLUMNS_OPTION}"
        if answers is not None and self.forms[answers] != NUMBER:
            how += f"; if these are sampled answers, {_samples_command(answers)}"
        raise self.request.refuse(f"expected {wanted}, found {listing(self.forms)}: {how}")

    def _other_file(self) -> str:
        """What a file holds in the place of predictions: measures of models, boxes, times to an event, odds."""
        names = [*self.forms, *self.labels.names]
        found, beside = called(names, "measure"), "write the label and the predicted probabilities of each row"
        if len(found) > 1 and not called(names, "truth", "label"):
            return f"{listing(found)} are measures, results without samples: {beside}"
        found = called(names, "box")
        if len(found) >= 4 or any(self.forms.get(n, NUMBER) != NUMBER for n in found):
            return f"{listing(found)} {BOXES}"
        facts = self._facts(self._having(NUMBER))
        if odds := _odds_in(facts):
            texts = self._facts([n for n, form in self.forms.items() if form not in (NUMBER, VECTOR)])
            ends = {key_of(name) for name in _odds_names(odds)}
            label = next((n for n, f in texts.items() if set(map(key_of, f.distinct)) == ends), "NAME")
            command = self._run(odds, label).replace(" --columns", " --odds --columns", 1)
            return f"if {listing(odds)} are odds, {command}"
        fractions = [n for n, f in self._facts(self.labels.names).items() if f.is_fraction]
        if fractions and not self.elsewhere:
            return f"{quote(fractions[0])} holds fractions, as a submission does: pass the outcomes with --labels FILE"
        if called(names, "time") and called(names, "event") and not any(f.is_fraction for f in facts.values()):
            wanted = "the probability of the event by a fixed time, and whether it came by then"
            return f"times to an event need {wanted}: write one column of each"
        return ""

    def _command(self) -> str:
        """The complete command, with columns that can be predictions by their values, and those that can be labels."""
        facts = self._facts([n for n in self.forms if not is_identifier(n) and self.forms[n] != VECTOR])
        unit = [n for n, f in facts.items() if f.is_fraction and (len(f.distinct) > 1 or f.rows < FEWEST_DECIDED)]
        two = [*self.labels.names, *(n for n, f in facts.items() if len(f.distinct) == 2 and f.may_be_label)]
        two = [n for n in two if not is_prediction(n)]
        if not facts:
            return ""
        kept, told = [n for n in facts if is_prediction(n)], [n for n in unit if meaning(n) is not None]
        write = "write the predicted probabilities to the file (predict_proba)"
        if kept and not told:
            what = "decisions" if all(facts[n].numbers is None or facts[n].whole for n in kept) else "numbers"
            none = "" if unit else "no column has fractions between 0 and 1, and "
            return f"{none}{listing(kept)} holds {what} without a probability: {write}"
        if not unit:
            return f"no column has fractions between 0 and 1: {write}"
        told = told or unit
        one = told if len(told) == 1 or sum_to_one(facts, told) else []
        near = [n for n in two if one and key_of(n) in key_of(one[0])]
        label = (*self.labels.names, *near, *likeliest_first(two, told, list(self.forms)))[:1]
        own = "" if self.elsewhere else label[0] if label else None
        numbers = {n for n in facts if self.forms[n] == NUMBER and n not in two}
        if not one and label and numbers <= set(told) and len(told) <= MOST_MODELS:
            return f"if {listing(told)} are models, {self._run(told, own, 'compare')}"
        chosen = one or told[-1:]
        open_ = [f"within [0, 1]: {listing(told)}"] if not one else []
        open_ += [f"of two values: {listing(two)}"] if len(two) > 1 and label and not near else []
        also = f" (columns {'; '.join(open_)})" if open_ else ""
        also += "" if one else f"; if none is a predicted probability, {write}"
        return f"{self._run(chosen, own)}{also}"

    def _run(self, columns: Sequence[str], label: str | None = "", verb: str = "evaluate") -> str:
        """The complete command that names columns, and the labels, which are in another file where that is None."""
        own = " --labels FILE" if label is None else f" --label-column {shlex.quote(label)}" if label else ""
        path, names = shlex.quote(self.request.path), shlex.quote(",".join(columns))
        return f"run: truecal {verb} {path} --columns {names}{own}{self._gaps(columns)}"

    def _found(
        self, names: Iterable[str], why: str, said: Scale | None, classes: tuple[str, ...] | None = None, of: str = ""
    ) -> Layout:
        """The columns or keys that a rule found, once it is settled what their numbers are."""
        names = tuple(names)
        scale, sure = settle(self.request, said, f"the name of {self.what} {quote(names[0])}")
        note = f"{scale}{of} from {shown_columns(names, self.what)} ({why})"
        return Layout(scale, names, classes, sure, note=note)

    def _gaps(self, names: Sequence[str]) -> str:
        """The option that drops rows, where some of these columns lack values."""
        return " --drop-incomplete" if any(each.missing for each in self._facts(names).values()) else ""

    def _facts(self, names: Iterable[str]) -> dict[str, Facts]:
        return peeked(self.peek, list(names))

    def _having(self, form: str) -> list[str]:
        return [name for name, held in self.forms.items() if held == form]

    def _choose(self, probas: list[str], logits: list[str]) -> str | None:
        """One of the names that say probabilities or logits; between the two only the caller's word decides."""
        told = self.request.told
        if probas and logits and told is None:
            both = listing([*probas, *logits])
            how = f"pass {LOGITS_OPTION}, or name one with {COLUMNS_OPTION}"
            raise self.request.refuse(f"expected probabilities or logits, found both ({both}): {how}")
        found = (logits or probas) if told == "logits" else (probas or logits)
        if len(found) > 1:
            raise self._several(found)
        return found[0] if found else None

    def _several(self, found: Sequence[str]) -> FileError:
        facts = self._facts(found)
        found = [n for n in found if n not in facts or not facts[n].whole] or found  # without decisions
        wanted = f"expected one {self.what} of predictions, found"
        if targets := self._own_targets(found):
            first, label = next(iter(targets.items()))
            both = ", ".join(f"{quote(name)} with {quote(own)}" for name, own in targets.items())
            return self.request.refuse(f"{wanted} {both}: {self._run([first], label)}")
        if group := self._classes_of_a_model(found):
            what = f"expected one model, found the classes of several in {listing(found)}"
            return self.request.refuse(f"{what}: for one of them {self._run(group)}")
        how = f"name one with {COLUMNS_OPTION}; if they are models, {self._run(found, verb='compare')}"
        error = self.request.refuse(f"{wanted} {listing(found)}: {how}")
        return SeveralModelsError(str(error), tuple(found)) if self._are_models(found) else error

    def _are_models(self, found: Sequence[str]) -> bool:
        """Whether columns such as forest_prob, linear_prob are of models of one target, not of a target each."""
        said = [m for name in found if (m := meaning(name)) is not None]
        facts = self._facts(found)
        if len(said) < len(found) or len(found) > MOST_MODELS or self._gaps(found) or len(self.labels.names) > 1:
            return False
        if len({(m.said, m.family[1]) for m in said}) > 1 or not all(f.is_fraction for f in facts.values()):
            return False
        models = [m.rest for m in said]
        targets = {key_of(name) for name in (*self.forms, *self.labels.names)}
        alike = stripped(models) != tuple(models) or any(map(says_model, models)) or all(len(m) <= 3 for m in models)
        return alike and self._two_valued(any_column=True) and not targets & set(map(key_of, models))

    def _classes_of_a_model(self, found: Sequence[str]) -> list[str]:
        """Of columns such as prob_yes_rf, prob_no_rf, prob_yes_svm, prob_no_svm, those of the first model."""
        words = [re.split(r"[_. ]+", m.rest) for name in found if (m := meaning(name)) is not None]
        for end in (-1, 0) if len(words) == len(found) else ():
            groups: dict[str, list[str]] = {}
            for name, each in zip(found, words, strict=True):
                groups.setdefault(each[end], []).append(name)
            whole = [group for group in groups.values() if sum_to_one(self._facts(group), group)]
            if whole and len(groups) > 1 and len({len(group) for group in groups.values()}) == 1:
                return whole[0]
        return []

    def _own_targets(self, found: Sequence[str]) -> dict[str, str]:
        """The columns of outcomes of several probabilities that are of different events: y_a of p_a, and y_b of p_b."""
        rest = {name: key_of(m.rest) for name in found if (m := meaning(name)) is not None and m.rest}
        facts = peeked(self.peek, [n for n in (*self.labels.names, *self.forms) if n not in found])
        two = [n for n, each in facts.items() if len(each.distinct) == 2 and not is_prediction(n)]
        own = {name: [n for n in two if key_of(n).endswith(key)] for name, key in rest.items() if len(key) > 1}
        one = {name: columns[0] for name, columns in own.items() if len(columns) == 1}
        return one if len(set(one.values())) == len(one) > 0 and len(found) > 1 else {}

    def _only(self, found: Sequence[str], role: str) -> str | None:
        if len(found) > 1:
            wanted = ", ".join(ROLES[role])
            raise self.request.refuse(f"expected one {self.what} of {wanted}, found {listing(found)}")
        return found[0] if found else None

    def _class_names(self, names: Iterable[str]) -> tuple[str, ...] | None:
        """The class names beside the words, or None where a column has none."""
        said = [meaning(name) for name in names]
        classes = tuple(m.rest for m in said if m is not None and m.rest)
        if len(classes) != len(said):
            return None
        check_names(self.request.path, classes, "class")
        return classes


def _may_sum(facts: dict[str, Facts], names: Sequence[str]) -> bool:
    """Whether columns may be rounded probabilities, percentages or odds, about which a later check has more to say."""
    tables = [facts[name].numbers for name in names if name in facts and facts[name].numbers is not None]
    if len(tables) != len(names) or len({len(t) for t in tables}) != 1 or not len(tables[0]):
        return False
    if all(float(t.min()) > 1 for t in tables) and 0.9 <= float(sum(1 / t for t in tables).mean()) <= 1.5:
        return True
    total = sum(tables)
    near = any(float(abs(total / scale - 1).max()) <= max(0.1, 0.005 * len(names)) for scale in (1, 100))
    return near and all(float(t.min()) >= 0 for t in tables)


def _odds_in(facts: dict[str, Facts]) -> tuple[str, ...]:
    """The first columns that differ by their last letters and hold decimal odds of all outcomes."""
    families: dict[str, list[str]] = {}
    for name in facts:
        families.setdefault(name[:-1], []).append(name)
    for names in (tuple(names) for names in families.values() if 2 <= len(names) <= 4):
        tables = [facts[name].numbers for name in names]
        if any(t is None or not len(t) or len(t) != len(tables[0]) or float(t.min()) <= 1 for t in tables):
            continue
        if 1 < float(sum(1 / t for t in tables).mean()) < 1.2 and not all(facts[name].whole for name in names):
            return names
    return ()


def _samples_command(name: str) -> str:
    return f"pass --samples {name} --question ID and --correct or --reference COLUMN"


def _odds_names(names: Sequence[str]) -> tuple[str, ...]:
    """The outcomes that columns of odds are for: home of odds_home, H of B365H beside B365D and B365A."""
    told = [match[1] or match[2] for name in names if (match := _ODDS.fullmatch(name))]
    if len(told) == len(names):
        return tuple(told)
    shared = sum(1 for _ in itertools.takewhile(lambda letters: len(set(letters)) == 1, zip(*names, strict=False)))
    rest = tuple(name[shared:] for name in names)
    return rest if all(rest) and len(set(rest)) == len(rest) else tuple(names)
