//! Models of XGBoost in JSON.

use super::{
    error::{Result, TreesError, bad_node},
    model::{Forest, Link, Node, Split, Tree, numbered, parse, tree_of},
};
use serde::{Deserialize, Deserializer};
use sudare_arith::real;

const FORMAT: &str = "XGBoost";

fn refused<T>(problem: impl Into<String>) -> Result<T> {
    Err(TreesError::Format { format: FORMAT, problem: problem.into() })
}

#[derive(Deserialize)]
struct File {
    learner: Learner,
}

#[derive(Deserialize)]
struct Learner {
    #[serde(default)]
    feature_names: Vec<String>,
    #[serde(default)]
    feature_types: Vec<String>,
    gradient_booster: Booster,
    learner_model_param: ModelParam,
    objective: Objective,
}

#[derive(Deserialize)]
struct ModelParam {
    base_score: String,
    #[serde(deserialize_with = "count")]
    num_class: usize,
    #[serde(deserialize_with = "count")]
    num_feature: usize,
    #[serde(default = "one", deserialize_with = "count")]
    num_target: usize,
}

fn one() -> usize {
    1
}

#[derive(Deserialize)]
struct Objective {
    name: String,
}

/// A booster of trees. A booster with dropout has another one inside.
#[derive(Deserialize)]
struct Booster {
    name: String,
    model: Option<Model>,
    gbtree: Option<Box<Booster>>,
    #[serde(default)]
    weight_drop: Vec<f64>,
}

#[derive(Deserialize)]
struct Model {
    trees: Vec<Stored>,
    tree_info: Vec<usize>,
}

#[derive(Deserialize)]
struct Stored {
    left_children: Vec<i64>,
    right_children: Vec<i64>,
    split_indices: Vec<usize>,
    split_conditions: Vec<f64>,
    #[serde(default)]
    split_type: Vec<u8>,
    #[serde(default)]
    categories: Vec<serde::de::IgnoredAny>,
    tree_param: TreeParam,
}

#[derive(Deserialize)]
struct TreeParam {
    #[serde(default = "one", deserialize_with = "count")]
    size_leaf_vector: usize,
}

/// Reads a count, which XGBoost writes as text.
fn count<'de, D: Deserializer<'de>>(deserializer: D) -> core::result::Result<usize, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Number {
        Text(String),
        Whole(usize),
    }
    match Number::deserialize(deserializer)? {
        Number::Whole(number) => Ok(number),
        Number::Text(text) => text.parse().map_err(serde::de::Error::custom),
    }
}

impl Forest {
    /// Reads the JSON of a model of XGBoost (`save_model` with a name that ends in `.json`), as
    /// its [schema](https://xgboost.readthedocs.io/en/stable/tutorials/saving_model.html) has it.
    ///
    /// Features and thresholds are compared as 32-bit floats, as XGBoost does. Missing values are
    /// not possible in encrypted rows, so the default directions of splits have no effect.
    ///
    /// # Errors
    /// [`TreesError::Format`] for other content, a linear booster, categorical splits, vectors in
    /// leaves, and objectives whose predictions are not known here; the errors of [`Forest::new`].
    pub fn from_xgboost(bytes: &[u8]) -> Result<Self> {
        let File { learner } = parse(FORMAT, bytes)?;
        let ModelParam { base_score, num_class, num_feature, num_target } =
            learner.learner_model_param;
        let booster = learner.gradient_booster;
        let (model, weights) = match (booster.name.as_str(), booster.model, booster.gbtree) {
            ("gbtree", Some(model), _) => (model, Vec::new()),
            ("dart", _, Some(inner)) => match inner.model {
                Some(model) => (model, booster.weight_drop),
                None => return refused("its booster has no trees"),
            },
            (name, ..) => {
                return refused(format!("its booster is {name:?}: train with \"gbtree\""));
            }
        };
        if learner.feature_types.iter().any(|kind| kind == "c" || kind == "categorical") {
            return refused("it has categorical features: train on one-hot columns");
        }
        if num_target > 1 {
            return refused(format!("it has {num_target} targets: train a model for each"));
        }
        let outputs = num_class.max(1);
        let link = match learner.objective.name.as_str() {
            "binary:logistic" | "reg:logistic" => Link::Logistic,
            "multi:softprob" | "multi:softmax" => Link::Softmax,
            "binary:logitraw"
            | "reg:squarederror"
            | "reg:squaredlogerror"
            | "reg:absoluteerror"
            | "reg:pseudohubererror"
            | "reg:quantileerror"
            | "rank:pairwise"
            | "rank:ndcg"
            | "rank:map" => Link::Identity,
            "count:poisson" | "reg:gamma" | "reg:tweedie" => Link::Exp,
            name => {
                return refused(format!(
                    "its objective is {name:?}, whose predictions are not known here: train with another \
                     one, or pass the trees to Forest::new"
                ));
            }
        };
        let offsets = offsets(&base_score, outputs, link)?;
        if model.tree_info.len() != model.trees.len() {
            return refused("it has another number of trees than of their classes");
        }
        if !weights.is_empty() && weights.len() != model.trees.len() {
            return refused("it has another number of trees than of their weights");
        }
        if learner.feature_names.len() > num_feature {
            return refused("it has more names than features");
        }
        // Names are optional.
        let names = learner.feature_names;
        let features = match names.len() == num_feature {
            true => names,
            false => numbered(num_feature)?,
        };
        let trees = model.trees.iter().zip(&model.tree_info).enumerate();
        let trees = trees.map(|(number, (stored, &output))| {
            let weight = weights.get(number).copied().unwrap_or(1.0);
            tree(stored, number, output, weight)
        });
        let trees = trees.collect::<Result<Vec<_>>>()?;
        Self::new(features, link, offsets, Vec::new(), trees)
    }
}

/// Returns the raw scores that a model starts from. The file has predictions: one, or one for each
/// output in brackets.
fn offsets(base_score: &str, outputs: usize, link: Link) -> Result<Vec<f64>> {
    let listed = base_score.trim().trim_start_matches('[').trim_end_matches(']');
    let number = |text: &str| match text.trim().parse::<f32>() {
        Ok(number) if number.is_finite() => Ok(f64::from(number)),
        _ => refused(format!("its base score is {base_score:?}: finite numbers are needed")),
    };
    let bases = listed.split(',').map(number).collect::<Result<Vec<_>>>()?;
    let bases = match bases[..] {
        [base] => vec![base; outputs],
        _ if bases.len() == outputs => bases,
        _ => {
            let found = bases.len();
            return refused(format!("it has {found} base scores for {outputs} outputs"));
        }
    };
    let raw = |base: f64| match link {
        Link::Logistic if base > 0.0 && base < 1.0 => Ok(real::ln(base / (1.0 - base))),
        Link::Exp if base > 0.0 => Ok(real::ln(base)),
        Link::Logistic | Link::Exp => {
            refused(format!("its base score is {base}, which is no prediction of its objective"))
        }
        _ => Ok(base),
    };
    bases.into_iter().map(raw).collect()
}

fn tree(stored: &Stored, number: usize, output: usize, weight: f64) -> Result<Tree> {
    let nodes = stored.split_conditions.len();
    if stored.tree_param.size_leaf_vector > 1 {
        return bad_node(number, 0, "its leaves have vectors: train with one output for each tree");
    }
    let lengths =
        [stored.left_children.len(), stored.right_children.len(), stored.split_indices.len()];
    if lengths != [nodes; 3] {
        return bad_node(number, 0, "its lists of nodes have different lengths");
    }
    if !stored.categories.is_empty() || stored.split_type.iter().any(|&kind| kind != 0) {
        return bad_node(number, 0, "it has categorical splits: train on one-hot columns");
    }
    tree_of(0, nodes, Some(output), |node| {
        let Some(&condition) = stored.split_conditions.get(node) else {
            return bad_node(number, node, "there is no such node");
        };
        // Numbers of the file are 32-bit floats.
        let condition = f64::from(condition as f32);
        match (stored.left_children[node], stored.right_children[node]) {
            (-1, -1) => Ok(Node::Leaf(vec![weight * condition])),
            (left, right) => match (usize::try_from(left), usize::try_from(right)) {
                (Ok(left), Ok(right)) => Ok(Node::Split(Split {
                    feature: stored.split_indices[node],
                    at: condition,
                    or_equal: false,
                    single: true,
                    left,
                    right,
                })),
                _ => bad_node(number, node, "it has one child: two are needed"),
            },
        }
    })
}
