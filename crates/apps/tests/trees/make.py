"""Makes the models of trees here, and what their libraries predict; see requirements.txt.

Each model is trained on a table that scikit-learn bundles. `NAME.json` has rows and predictions.
"""

import json
from pathlib import Path

import lightgbm
import numpy as np
import onnxruntime
import skl2onnx
import xgboost
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris
from sklearn.ensemble import GradientBoostingClassifier, RandomForestClassifier, RandomForestRegressor

FOLDER = Path(__file__).parent
ROWS = 24


def save(name, rows, predictions):
    rows, predictions = np.asarray(rows, dtype=np.float64), np.asarray(predictions, dtype=np.float64)
    said = {"rows": rows.tolist(), "predictions": predictions.reshape(len(rows), -1).tolist()}
    (FOLDER / f"{name}.json").write_text(json.dumps(said) + "\n")


def two(p):
    return np.stack([1 - p, p], axis=1)


cancer, diabetes, iris = (load(return_X_y=True) for load in (load_breast_cancer, load_diabetes, load_iris))
# 32-bit floats, so that all libraries read the same numbers.
tables = {"binary": cancer, "regression": diabetes, "classes": iris}
tables = {name: (x[:, :8].astype(np.float32), y) for name, (x, y) in tables.items()}
picked = {name: x[:: max(1, len(x) // ROWS)][:ROWS] for name, (x, y) in tables.items()}

objectives = {"binary": "binary:logistic", "regression": "reg:squarederror", "classes": "multi:softprob"}
for name, (x, y) in tables.items():
    options = {"num_class": 3} if name == "classes" else {}
    parameters = {"objective": objectives[name], "max_depth": 3, "eta": 0.4, "seed": 1, **options}
    booster = xgboost.train(parameters, xgboost.DMatrix(x, label=y), 6)
    booster.save_model(FOLDER / f"xgboost-{name}.model.json")
    found = booster.predict(xgboost.DMatrix(picked[name]))
    save(f"xgboost-{name}", picked[name], two(found.astype(np.float64)) if name == "binary" else found)

counts = np.round(np.abs(tables["regression"][1]) / 40)
booster = xgboost.train(
    {"objective": "count:poisson", "booster": "dart", "rate_drop": 0.3, "max_depth": 3, "seed": 1},
    xgboost.DMatrix(tables["regression"][0], label=counts),
    6,
)
booster.save_model(FOLDER / "xgboost-dart.model.json")
save("xgboost-dart", picked["regression"], booster.predict(xgboost.DMatrix(picked["regression"])))

objectives = {"binary": "binary", "regression": "regression", "classes": "multiclass"}
for name, (x, y) in tables.items():
    options = {"num_class": 3} if name == "classes" else {}
    parameters = {"objective": objectives[name], "num_leaves": 9, "verbose": -1, "seed": 1, **options}
    booster = lightgbm.train(parameters, lightgbm.Dataset(x, label=y), 6)
    booster.save_model(FOLDER / f"lightgbm-{name}.model.txt")
    found = booster.predict(picked[name])
    save(f"lightgbm-{name}", picked[name], two(found) if name == "binary" else found)

booster = lightgbm.train(
    {"objective": "binary", "boosting": "rf", "bagging_freq": 1, "bagging_fraction": 0.6, "verbose": -1,
     "num_leaves": 9, "seed": 1, "sigmoid": 2.0},
    lightgbm.Dataset(tables["binary"][0], label=tables["binary"][1]),
    6,
)
booster.save_model(FOLDER / "lightgbm-rf.model.txt")
save("lightgbm-rf", picked["binary"], two(booster.predict(picked["binary"])))

models = {
    "onnx-classes": ("classes", RandomForestClassifier(5, max_depth=4, random_state=1)),
    "onnx-binary": ("binary", GradientBoostingClassifier(n_estimators=6, max_depth=3, random_state=1)),
    "onnx-regression": ("regression", RandomForestRegressor(5, max_depth=4, random_state=1)),
}
for name, (table, model) in models.items():
    x, y = tables[table]
    model.fit(x, y)
    path = FOLDER / f"{name}.model.onnx"
    options = {} if table == "regression" else {id(model): {"zipmap": False}}
    path.write_bytes(skl2onnx.to_onnx(model, x[:1], options=options).SerializeToString())
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    save(name, picked[table], session.run(None, {"X": picked[table]})[-1])
