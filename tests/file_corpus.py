"""Small twins of files that tools write and that people publish, with what is right in them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

N = 200
rng = np.random.default_rng(1)
P = rng.beta(0.7, 0.7, N).round(6)
Y = (rng.random(N) < P).astype(int)
D = (P > 0.5).astype(int)
TOP = np.maximum(P, 1 - P)
OTHER = np.random.default_rng(3).permutation(P)  # has nothing to do with the outcomes
NAMES = np.array(["setosa", "versicolor", "virginica"])
THREE = rng.dirichlet([1, 1, 1], N)
ODDS = 1.6 / 1.05 / (THREE + 0.2)
CLASS = np.array([rng.choice(3, p=row) for row in THREE])
ARGMAX = THREE.argmax(axis=1)
YES, SAID = np.where(Y == 1, "Yes", "No"), np.where(D == 1, "Yes", "No")
SHARES = (0.9 * P + 0.05).round(6)
WON = np.where(Y == 1, "churned", "stayed")
IDS = np.arange(1000, 1000 + N)
AGE = rng.integers(18, 80, N)
TEAMS = [np.array([f"team {(i + shift) % 7}" for i in range(N)]) for shift in (0, 3)]


class Twin(NamedTuple):
    """A file, what is in it ("binary", "classes", "confidence"), the options of its command, or what is refused."""

    columns: Any  # a dict of columns, or a function that writes the file
    kind: str = "binary"
    options: Mapping[str, Any] = MappingProxyType({})
    refused: str = ""

    def write(self, path: Path) -> None:
        if callable(self.columns):
            self.columns(path)
        else:
            separator = "\t" if path.suffix == ".tsv" else ","
            pd.DataFrame(self.columns).to_csv(path, index=False, sep=separator)


def three(pattern: str, names: Any = NAMES, values: Any = THREE) -> dict[str, Any]:
    return {pattern.format(name): values[:, j] for j, name in enumerate(names)}


def raw(text: str, encoding: str = "utf-8") -> Callable[[Path], None]:
    """Write some text as it is."""

    def write(path: Path) -> None:
        path.write_bytes(text.encode(encoding))

    return write


def lines(rows: Iterable[Mapping[str, Any]]) -> Callable[[Path], None]:
    """Write objects, one per line."""
    return raw("\n".join(map(json.dumps, rows)))


def save_vectors(path: Path) -> None:
    """Vectors as Spark saves them: structs of a type and values."""
    vectors = [{"type": 1, "size": None, "indices": None, "values": [1 - p, p]} for p in P.tolist()]
    pd.DataFrame({"label": Y.astype(float), "probability": vectors, "prediction": D.astype(float)}).to_parquet(path)


def percent(values: Any) -> list[str]:
    return [f"{100 * v:.4f}%" for v in values]


TWO: dict[str, Any] = {"prob_0": 1 - P, "prob_1": P}
FEATURES = {"age": AGE, "income": rng.normal(size=N).round(3)}

TWINS: dict[str, Twin] = {
    # two columns, in either order, under all the names of true and false
    "true_false.csv": Twin({"true": P, "false": 1 - P, "label": Y}),
    "yes_no.csv": Twin({"yes": P, "no": 1 - P, "label": YES}),
    "neg_pos.csv": Twin({"neg": 1 - P, "pos": P, "label": Y == 1}),
    "pos_neg.csv": Twin({"pos": P, "neg": 1 - P, "label": np.where(Y == 1, 1, -1)}),
    "one_zero.csv": Twin({"1": P, "0": 1 - P, "label": Y}),
    "senate.csv": Twin({"Democrat_WinProbability": P, "Republican_WinProbability": 1 - P, "Democrat_Won": Y}),
    "cat_dog.csv": Twin({"prob_cat": 1 - P, "prob_dog": P, "label": Y}),
    "dog_cat.csv": Twin({"prob_dog": P, "prob_cat": 1 - P, "label": Y}),
    "cat_dog_unrelated.csv": Twin({"prob_cat": 1 - OTHER, "prob_dog": OTHER, "label": Y}, refused="--positive"),
    "cat_dog_told.csv": Twin({"prob_dog": P, "prob_cat": 1 - P, "label": Y}, options={"positive": "dog"}),
    # decisions beside outcomes
    "decision.csv": Twin({**TWO, "label": D, "actual": Y}),
    "decision_target.csv": Twin({"prediction": D, "probability": P, "label": D, "target": Y}),
    "decision_alone.csv": Twin({**TWO, "label": D}, refused="is the decision of the model in all 200 rows"),
    "threshold.csv": Twin({"score": P, "label": (P > 0.3).astype(int)}, refused="is the decision of the model"),
    "against.csv": Twin({"label": 1 - Y, "prob": P}, refused="the predictions are against the labels"),
    "y_pred.csv": Twin({"y_true": Y, "y_pred": D, "prob": TOP}, "confidence"),
    "y_proba.csv": Twin({"y_true": Y, "y_pred": D, "y_proba": P}),
    # tools
    "pycaret.csv": Twin({**FEATURES, "target": Y, "prediction_label": D, "prediction_score": TOP}, "confidence"),
    "mlflow.csv": Twin({"target": Y, "prediction": D, "prediction_score": P}),
    "pycaret_raw.csv": Twin(
        {**FEATURES, "target": Y, "prediction_label": D, "prediction_score_0": 1 - P, "prediction_score_1": P}
    ),
    "mljar.csv": Twin({"prediction": P, "target": Y}),
    "mljar_classes.csv": Twin({**three("prediction_{}"), "target": NAMES[CLASS], "label": NAMES[ARGMAX]}, "classes"),
    "h2o.csv": Twin({"predict": SAID, "No": 1 - P, "Yes": P, "actual": YES}),
    "h2o_p.csv": Twin({"predict": D, "p0": 1 - P, "p1": P, "y": Y}),
    "knime.csv": Twin(
        {"Species": NAMES[CLASS], **three("P (Species={})"), "Prediction (Species)": NAMES[ARGMAX]}, "classes"
    ),
    "rapidminer.csv": Twin(
        {"id": IDS, "label": YES, "confidence(Yes)": P, "confidence(No)": 1 - P, "prediction(label)": SAID}
    ),
    "azure.csv": Twin({"income": YES, "Scored Labels": SAID, "Scored Probabilities": P}),
    "azure_classes.csv": Twin(
        {"Species": NAMES[CLASS], **three('Scored Probabilities for Class "{}"'), "Scored Labels": NAMES[ARGMAX]},
        "classes",
    ),
    "caret.csv": Twin(
        {"pred": SAID, "obs": YES, "No": 1 - P, "Yes": P, "rowIndex": np.arange(N) + 1, "Resample": "Fold1"}
    ),
    "tidymodels.csv": Twin({".pred_class": SAID, ".pred_No": 1 - P, ".pred_Yes": P, "churn": YES}),
    "yardstick.csv": Twin(
        {
            "truth": np.where(Y == 1, "Class1", "Class2"),
            "Class1": P,
            "Class2": 1 - P,
            "predicted": np.where(D == 1, "Class1", "Class2"),
        }
    ),
    "sas_miner.csv": Twin({"BAD": Y, "P_BAD1": P, "P_BAD0": 1 - P, "I_BAD": D, "LOAN": AGE * 100}),
    "ludwig.csv": Twin(
        {
            "species": NAMES[CLASS],
            "species_predictions": NAMES[ARGMAX],
            "species_probability": THREE.max(axis=1),
            **three("species_probabilities_{}"),
        },
        "classes",
    ),
    "datarobot.csv": Twin(
        {
            "row_id": IDS,
            "readmitted_True_PREDICTION": P,
            "readmitted_False_PREDICTION": 1 - P,
            "readmitted_PREDICTION": D == 1,
            "readmitted": Y == 1,
        }
    ),
    "vertex.csv": Twin({"churn": Y, "churn_0_scores": 1 - P, "churn_1_scores": P}),
    "catboost.tsv": Twin({"SampleId": IDS, "Probability": P, "Label": Y}),
    "catboost_classes.tsv": Twin({"SampleId": IDS, **three("Probability:Class={}"), "Label": NAMES[CLASS]}, "classes"),
    "iris.csv": Twin({"sepal": FEATURES["income"], **three("{}"), "species": NAMES[CLASS]}, "classes"),
    "suffix.csv": Twin({"id": IDS, **three("{}_prob"), "actual_class": NAMES[CLASS]}, "classes"),
    "spaces.csv": Twin({"True Label": NAMES[CLASS], **three("Prob {}")}, "classes"),
    "chess.csv": Twin(
        {"home_win_prob": THREE[:, 0], "draw_prob": THREE[:, 1], "away_win_prob": THREE[:, 2]}
        | {"result": np.array(["home_win", "draw", "away_win"])[CLASS]},
        "classes",
    ),
    # one probability
    "churn.csv": Twin({"customer_id": IDS, "Churn": YES, "churn_probability": P}),
    "status.csv": Twin({"status": WON, "churn_prob": P}),
    "plain_names.csv": Twin({"label": WON, "prob": P}),
    "plain_unrelated.csv": Twin({"label": WON, "prob": OTHER}, refused="--positive"),
    "codes_one_two.csv": Twin({"Actual": Y + 1, "Predicted": D + 1, "Probability": P}),
    "plain_told.csv": Twin({"status": WON, "prob": P}, options={"positive": "churned"}),
    "signs.csv": Twin({"label": np.where(Y == 1, 1, -1), "prob": P}),
    "words.csv": Twin({"label": np.where(Y == 1, "TRUE", "FALSE"), "p_hat": P}),
    "oof.csv": Twin({"id": IDS, "fold": np.arange(N) % 5, "target": Y, "oof_pred": P}),
    "logprob.csv": Twin({"label": Y, "logprob": np.log(P)}),
    "logprob_correct.csv": Twin({"correct": Y, "logprob": np.log(P)}, "stated"),
    "unknown.csv": Twin(
        {"season": 2000 + AGE, "elo": P, "won_it": Y, "spread": FEATURES["income"]},
        refused="run: truecal evaluate unknown.csv --columns elo --label-column won_it",
    ),
    "models.csv": Twin(
        {"y": Y, "lr_prob": P, "rf_prob": P**2, "xgb_prob": P**0.5},
        refused="run: truecal compare models.csv --columns lr_prob,rf_prob,xgb_prob",
    ),
    # values
    "percent.csv": Twin({"probability": percent(P), "outcome": Y}),
    "percent_two.csv": Twin({"prob_yes": percent(P), "prob_no": percent(1 - P), "label": YES}),
    "thousands.csv": Twin({"votes": [f"{v:,}" for v in AGE * 1000], "prob": P, "label": Y}),
    "soft.csv": Twin({"prob": P, "label": SHARES}, "soft"),
    "ties.csv": Twin({"prob": P, "won": np.where(np.arange(N) % 20 == 0, 0.5, Y)}, "soft"),
    "nulls.csv": Twin({"prob": [*P, 0.5, 0.5], "label": [*map(str, Y), "", ""]}, options={"drop_incomplete": True}),
    # outcomes
    "one_hot.csv": Twin({**three("p_{}"), **three("{}", values=np.eye(3, dtype=int)[CLASS])}, "classes"),
    "one_hot_is.csv": Twin({**three("{}_prob"), **three("is_{}", values=np.eye(3, dtype=int)[CLASS])}, "classes"),
    "one_hot_named.csv": Twin(
        {**three("{}_prob"), **three("q{}", range(3), np.eye(3, dtype=int)[CLASS])},
        "classes",
        {"label_column": "q0,q1,q2"},
    ),
    "won_family.csv": Twin(
        {"version": np.where(D, "lite", "full"), "no_WinProbability": 1 - P, "yes_WinProbability": P}
        | {"no_Won": 1 - Y, "yes_Won": Y}
    ),
    "win_lose.csv": Twin({"lose_prob": 1 - P, "win_prob": P, "won": Y}),
    "favorite.csv": Twin({"year": 2000 + AGE, "round": AGE % 6, "favorite_probability": P, "favorite_win_flag": Y}),
    "three_words.csv": Twin(
        {"candidate": IDS, "forecast_prob": P, "result": np.where(Y == 1, "Win", np.where(D == 1, "Loss", "Lose"))}
    ),
    "one_of_many.csv": Twin(
        {"prob_setosa": THREE[:, 0], "species": NAMES[CLASS]},
        "first class",
        {"columns": "prob_setosa", "label_column": "species", "positive": "setosa"},
    ),
    "prefix_classes.csv": Twin(
        {"agent": IDS, "dir_true": np.array(["stable", "buff", "nerf"])[CLASS], "p_stable": THREE[:, 0]}
        | {"p_buff_dir": THREE[:, 1], "p_nerf_dir": THREE[:, 2], "hit_dir": (ARGMAX == CLASS).astype(int)},
        "classes",
    ),
    "plus_minus.csv": Twin({"Label": np.where(Y == 1, "GON+", "GON-"), "prediction": D, "probability": P}),
    "plus_told.csv": Twin({"Label": np.where(Y == 1, "GON+", "GON-"), "probability": P}, options={"positive": "GON+"}),
    "non.csv": Twin(
        {"text": [f"text {i}" for i in IDS], "label": np.where(Y == 1, "toxic", "non-toxic"), "toxic_score": P}
    ),
    "two_scores.csv": Twin(
        {"truth": WON, "rf_pred": np.where(D, "churned", "stayed"), "rf_confidence": percent(P)}
        | {"svm_pred": np.where(D, "churned", "stayed"), "svm_confidence": percent(P**2)},
        options={"columns": "rf_confidence"},
    ),
    "images.csv": Twin(
        {"Image-Name": [f"{i}.png" for i in IDS], "Predicted Class": SAID, "Confidence Score": TOP},
        refused="expected a label for each predicted label",
    ),
    "two_targets.csv": Twin(
        {"id": IDS, "oof_p_wrong": P, "oof_p_final": P**2, "y_wrong": Y},
        refused="--columns oof_p_wrong --label-column y_wrong",
    ),
    "top_k.csv": Twin(
        {"label": Y, "top1_class": D, "top1_prob": TOP, "top2_class": 1 - D, "top2_prob": 1 - TOP}, "confidence"
    ),
    # more tools
    "spss_modeler.csv": Twin(
        {"Churn": Y, "$L-Churn": D, "$LP-Churn": TOP, "$LP-0": 1 - P, "$LP-1": P},
    ),
    "spss_confidence.csv": Twin({"Churn": Y, "$N-Churn": D, "$NC-Churn": TOP}, "confidence"),
    "spss_logistic.csv": Twin({"default": Y, "PRE_1": P, "PGR_1": D}),
    "sas_scored.csv": Twin({"BAD": Y, "EM_EVENTPROBABILITY": P, "EM_PROBABILITY": TOP, "EM_CLASSIFICATION": D}),
    "sagemaker.csv": Twin(raw("\n".join(f"{y},{p}" for y, p in zip(Y, P, strict=True))), options={"label_column": "0"}),
    "score.csv": Twin({"y": Y, "pred": D, "score": P}),
    "savez.npz": Twin(lambda path: np.savez(path, Y, P)),
    "all_labels.npz": Twin(lambda path: np.savez(path, all_labels=CLASS, all_probs=THREE), "classes"),
    "alteryx.csv": Twin({"Churn": YES, "Score_No": 1 - P, "Score_Yes": P}),
    "autogluon.csv": Twin({"": np.arange(N), "No": 1 - P, "Yes": P, "class": YES}),
    "autopilot.csv": Twin(
        {"churn": Y, "predicted_label": SAID, "probability": TOP, "probabilities": [f"[{1 - p}, {p}]" for p in P]}
        | {"labels": ["['No', 'Yes']"] * N},
        options={"label_column": "churn"},
    ),
    "bigquery.jsonl": Twin(
        lines(
            {"churn": y, "churn_probs": [{"label": "Yes", "prob": p}, {"label": "No", "prob": 1 - p}]}
            for y, p in zip(YES, P, strict=True)
        )
    ),
    "dataiku.csv": Twin({"churn": Y, "proba_0": 1 - P, "proba_1": P, "prediction": D}),
    "driverless.csv": Twin({"churn.0": 1 - P, "churn.1": P, "churn": Y}),
    "hugging_face.jsonl": Twin(
        lines(
            {"text": "a", "label": f"LABEL_{d}", "score": t, "gold": int(y)} for d, t, y in zip(D, TOP, Y, strict=True)
        ),
        "confidence",
    ),
    "jmp.csv": Twin({"Species": NAMES[CLASS], **three("Prob[{}]"), "Most Likely Species": NAMES[ARGMAX]}, "classes"),
    "mlr3.csv": Twin({"row_ids": IDS, "truth": YES, "response": SAID, "prob.Yes": P, "prob.No": 1 - P}),
    "openml.csv": Twin(
        {"repeat": 0, "fold": IDS % 5, "row_id": IDS, **three("confidence.{}"), "prediction": NAMES[ARGMAX]}
        | {"correct": NAMES[CLASS]},
        "classes",
    ),
    "orange.tsv": Twin(
        {"iris": NAMES[CLASS], "Tree": NAMES[ARGMAX], **three("Tree ({})")},
        "classes",
    ),
    "spacy.jsonl": Twin(
        lines({"cats": {"POS": p, "NEG": 1 - p}, "label": "POS" if y else "NEG"} for p, y in zip(P, Y, strict=True))
    ),
    "spark.csv": Twin(
        {"label": Y.astype(float), "rawPrediction": [f"[{np.log((1 - p) / p)},{np.log(p / (1 - p))}]" for p in P]}
        | {"probability": [f"[{1 - p},{p}]" for p in P], "prediction": D.astype(float)}
    ),
    "spark.parquet": Twin(save_vectors),
    "stata.csv": Twin({"foreign": Y, "phat": P}),
    "vertex.jsonl": Twin(
        lines(
            {"instance": {"age": int(a), "churn": y}, "prediction": {"classes": ["No", "Yes"], "scores": [1 - p, p]}}
            for a, y, p in zip(AGE, YES, P, strict=True)
        ),
        options={"label_column": "instance.churn"},
    ),
    "wandb.table.json": Twin(
        raw(
            json.dumps(
                {
                    "columns": ["truth", "no_score", "yes_score"],
                    "data": [[y, 1 - p, p] for y, p in zip(YES, P, strict=True)],
                }
            )
        )
    ),
    "weka.csv": Twin(
        {"inst#": np.arange(N) + 1, "actual": np.where(Y, "2:yes", "1:no"), "predicted": np.where(D, "2:yes", "1:no")}
        | {"error": np.where(Y != D, "+", ""), "prediction": TOP},
        "confidence",
    ),
    # what people publish
    "confidence_percent.csv": Twin(
        {"Actual": YES, "Predicted": SAID, "Confidence (%)": (100 * TOP).round(6)}, "confidence"
    ),
    "all_beside_top.csv": Twin(
        {"file": IDS, "true_class": NAMES[CLASS], "predicted_class": NAMES[ARGMAX], "confidence": THREE.max(axis=1)}
        | three("{}"),
        "classes",
    ),
    "other_scores.csv": Twin(
        {"score_a": AGE, "score_b": AGE * 2.5, "plan": np.where(AGE > 40, "x", "z"), "churn_real": Y, "prob_churn": P}
    ),
    "reasons.jsonl": Twin(
        lines(
            {"claim_probability": p, "outcome": float(y), "probability_method": "judged", "probability_reason": "none"}
            for p, y in zip(P, Y, strict=True)
        )
    ),
    "codes.csv": Twin({"y_true": Y, "p_approve": P, "p_reject": 1 - P, "pred_label": D}),
    "two_codings.csv": Twin(
        {"label": Y, "label_name": YES, "bert_prediction": SAID, "bert_predicted_label": D, "bert_score": TOP},
        "confidence",
    ),
    "folded.csv": Twin(
        {"case": IDS, "prob": P, "correct": (D == Y).astype(int)}, refused="it may be the probability of one class"
    ),
    "features.csv": Twin(
        {"rate_a": P, "rate_b": P**2, "count": AGE, "label": Y}, refused="--columns rate_b --label-column label"
    ),
    "regression.csv": Twin(
        {"actual": AGE + 0.5, "prediction": AGE + FEATURES["income"], "share": P},
        refused="'prediction' holds numbers without a probability",
    ),
    "models_named.csv": Twin(
        {"y_true": Y, "lr_proba": P, "lr_pred": D, "rf_proba": P**2, "rf_pred": D},
        refused="run: truecal compare models_named.csv --columns lr_proba,rf_proba",
    ),
    "two_decisions.csv": Twin({"Actual_Churn": Y, "Churn_Probability": P, "A_Prediction": D, "B_Prediction": D}),
    "words_for_codes.csv": Twin(
        {"prob_fraud": P, "label": Y, "decision": np.array(["pass", "check", "stop"])[D + (P > 0.9)]}
    ),
    "two_names.csv": Twin(
        {"Default": (AGE > 50).astype(int), "Actual Status": Y, "Predicted Status": D, "Probability of Default": P}
    ),
    "choices.jsonl": Twin(
        lines(
            {
                "correct_candidate_id": "DEF"[c],
                "candidate_scores": dict(zip("DEF", row, strict=True)),
                "point_prediction": "DEF"[a],
            }
            for c, row, a in zip(CLASS, THREE.tolist(), ARGMAX, strict=True)
        ),
        "classes",
    ),
    "endings.csv": Twin(
        {"ftr": np.array(["H", "D", "A"])[CLASS], "dc_ph": THREE[:, 0], "dc_pd": THREE[:, 1], "dc_pa": THREE[:, 2]},
        "classes",
        {"columns": "dc_ph,dc_pd,dc_pa", "label_column": "ftr"},
    ),
    "spread.csv": Twin({"label": Y, "p_model": P, "p_model_std": P / 10}),
    # several models, targets or meanings, told by values
    "scores_of_models.csv": Twin(
        {**FEATURES, "y_test": Y, "y_pred_a": D, "y_score_a": P, "y_score_b": P**2},
        refused="run: truecal compare scores_of_models.csv --columns y_score_a,y_score_b",
    ),
    "models_after.csv": Twin(
        {"label": Y, "p_meta": P, "p_text": P**2, "p_both": P**0.5}, refused="--columns p_meta,p_text,p_both"
    ),
    "confidence_of_one.csv": Twin({"confidence": P, "true_label": Y.astype(float)}),
    "never_predicted.csv": Twin(
        {"True Label": np.where(Y == 1, "Mass", "Non Mass"), "Predicted Label": "Non Mass"}
        | {"Prediction Probability": P / 2.1},
        "halved",
    ),
    "top_without_labels.csv": Twin({"y_true": Y, "prob": TOP}, refused="it may be the probability of the predicted"),
    "logits_by_name.csv": Twin(
        {"judged": np.where(Y == 1, "Correct", "Incorrect"), "logits": [f"[[{p}, {1 - p}]]" for p in P]},
        "second class",
        {"label_column": "judged"},
    ),
    "unrelated.csv": Twin({"sex": Y[::-1], "prob": P}, refused="no relation between the predictions and column 'sex'"),
    "decided_click.csv": Twin(
        {"gap": AGE % 2, "click": Y, "xgb_probability": P, "xgb_click": D},
    ),
    "numbered.csv": Twin(
        {"label": NAMES[CLASS], "predicted_label": NAMES[ARGMAX], **three("prob_{}", range(3))}, "classes"
    ),
    "vectors.jsonl": Twin(
        lines(
            {"text": "a", "label": NAMES[c], "pred": NAMES[a], "probs": p}
            for c, a, p in zip(CLASS, ARGMAX, THREE.tolist(), strict=True)
        ),
        "classes",
    ),
    "benign.csv": Twin({"prob_0": 1 - P, "prob_1": P, "label": np.where(Y == 1, "malignant", "benign")}),
    "poles_and_codes.csv": Twin(
        {"label": Y, "prediction": np.where(D == 1, "POSITIVE", "NEGATIVE"), "confidence": TOP}, "confidence"
    ),
    "mostly_missing.csv": Twin(
        {"A": IDS, "bt_prob": P, "edited": np.where(AGE > 70, "yes", ""), "odds": 1 / (P + 0.1), "Awin": Y}
    ),
    "sorted.json": Twin(
        raw(
            json.dumps(
                [
                    {"file": f"{i}.png", "true": NAMES[i // 1000], "pred": NAMES[ARGMAX[i % N]], "prob": TOP[i % N]}
                    for i in range(3000)
                ]
            )
        ),
        "sorted",
    ),
    "models_of_a_weak_label.csv": Twin(
        {"id": IDS, "actual_heart": Y, "Prob_Tree": P, "Pred_Tree": D, "Prob_SVM": P**2, "Prob_Boost": P**0.5},
        refused="--columns Prob_Tree,Prob_SVM,Prob_Boost",
    ),
    "perfect.csv": Twin(
        {"PLAYED_orig": D, "PLAYED_predicted": D, "0_predicted_proba": 1 - P, "1_predicted_proba": P, "W": AGE},
        refused="pass --label-column PLAYED_orig",
    ),
    "quoted.json": Twin(
        raw(json.dumps([{"label": str(y), "prob": str(p)} for y, p in zip(Y.tolist(), P.tolist(), strict=True)]))
    ),
    "marked.csv": Twin(
        {"true": Y, "pred": D, "prob_pneumonia": P, "true_name": YES, "pred_name": SAID, "correct": D == Y}
    ),
    "winner.csv": Twin(
        {"home_team": TEAMS[0], "away_team": TEAMS[1], "winner": np.where(Y == 1, *TEAMS), "home_win_prob": P}
    ),
    "winners.csv": Twin(
        {"team1": TEAMS[0], "team2": TEAMS[1], "Result": np.where(CLASS == 1, "Draw", np.where(CLASS == 0, *TEAMS))}
        | {"p_team1": THREE[:, 0], "p_draw": THREE[:, 1], "p_team2": THREE[:, 2]},
        "classes",
    ),
    "percent.jsonl": Twin(lines({"label": int(y), "prob": p} for y, p in zip(Y, percent(P), strict=True))),
    "average.csv": Twin(
        {"actual": np.array(["Average", "Flop", "Hit"])[CLASS], **three("probability_{}", ("Average", "Flop", "Hit"))},
        "classes",
    ),
    "two_events.csv": Twin(
        {"y_true": Y, "proba_churn": P, "proba_lost_cause": P**2},
        refused="if they are models, run: truecal compare two_events.csv --columns proba_churn,proba_lost_cause",
    ),
    "models_of_classes.csv": Twin(
        {"future": CLASS, **three("prob_{}_xgb"), **three("prob_{}_svm", values=THREE[:, ::-1])},
        refused="--columns prob_setosa_xgb,prob_versicolor_xgb,prob_virginica_xgb",
    ),
    "scored.csv": Twin({"voltage": AGE / 100, "temp": FEATURES["income"], "odd": Y, "odd_pred": D, "odd_score": P}),
    "signed.csv": Twin({**three("p_{}", (-1, 0, 1)), "result": CLASS - 1}, "classes"),
    "fractions.csv": Twin({"y_true": SHARES, "y_pred": P}, refused="may be numbers that were predicted"),
    "one_of_scores.csv": Twin(
        {"y_true": Y, "cnn_prediction": P, "ensemble_score": SHARES}, refused="'cnn_prediction', 'ensemble_score'"
    ),
    "propensity.csv": Twin({"stage": WON, "actual_won": Y, "propensity_to_buy": P}),
    "sorted.csv": Twin({"target_x": np.repeat([0, 1], 2000), "xgb": np.tile(P, 20)}, refused="--label-column target_x"),
    "win_flag.csv": Twin({"forecast_prob": P, "result": np.where(Y == 1, "Win", "Lose"), "winflag": Y}),
    # what is no prediction
    "headerless.csv": Twin(
        raw("\n".join(f"{y},{p}" for y, p in zip(Y, P, strict=True))), refused="if it has the labels, pass label_column"
    ),
    "one_vs_rest.csv": Twin(
        {**three("prob_{}", values=THREE**0.5), "label": NAMES[CLASS]}, refused="measure one class with proba_columns"
    ),
    "multi_hot.npz": Twin(
        lambda path: np.savez(path, all_preds=np.ones((N, 3), dtype=int), all_labels=CLASS),
        refused="these are decisions, 0 and 1",
    ),
    "odds.csv": Twin(
        {"FTHG": AGE % 4, "B365H": ODDS[:, 0], "B365D": ODDS[:, 1]}
        | {"B365A": ODDS[:, 2], "FTR": np.array(["H", "D", "A"])[CLASS]},
        refused="--odds --columns B365H,B365D,B365A --label-column FTR",
    ),
    "submission.csv": Twin({"id": IDS, "target": P}, refused="pass the outcomes with --labels FILE"),
    "no_labels.csv": Twin({"id": IDS, "p_churn": P}, refused="can be the labels: pass them with --labels FILE"),
    "measures.csv": Twin({"model": ["a", "b"], "accuracy": [0.9, 0.8], "auc": [0.9, 0.8]}, refused="without samples"),
    "boxes.csv": Twin(
        {"xmin": P, "ymin": P, "xmax": P, "ymax": P, "score": TOP, "label": NAMES[CLASS]}, refused="are boxes: match"
    ),
    "survival.csv": Twin(
        {"time": AGE, "event": Y, "risk": FEATURES["income"]}, refused="the probability of the event by a fixed time"
    ),
    "decisions_only.csv": Twin(
        {"y_true": Y, "y_pred": D}, refused="no column has fractions between 0 and 1, and 'y_pred' holds decisions"
    ),
}
