//! Constants of a model, and the expressions of constants that exporters write: transposed weights,
//! and shapes.

use std::rc::Rc;

use super::{
    constant::{Constant, Numbers},
    operators::NEGATIVE_AXES,
    wire::{Beside, Content, DOUBLE, FLOAT, INT32, INT64, Node},
};

/// Results whose error describes the problem.
type Result<T> = core::result::Result<T, String>;

/// Returns the places of numbers of this shape in the order of permuted axes.
pub(super) fn permuted(shape: &[usize], order: &[usize]) -> Vec<usize> {
    let mut strides = vec![0; shape.len()];
    let mut stride = 1usize;
    for (entry, &size) in strides.iter_mut().zip(shape).rev() {
        *entry = stride;
        stride = stride.saturating_mul(size);
    }
    let mut places = vec![0usize];
    for &axis in order {
        let along = shape.get(axis).copied().unwrap_or(1);
        let stride = strides.get(axis).copied().unwrap_or(0);
        let step =
            |place: usize| (0..along).map(move |i| place.saturating_add(stride.saturating_mul(i)));
        places = places.into_iter().flat_map(step).collect();
    }
    places
}

/// Returns an axis of a tensor of `rank` axes. A negative number counts from the end.
pub(super) fn axis(number: i64, rank: usize, version: i64) -> Result<usize> {
    let wrong = || format!("it names the axis {number} of {rank}");
    let count = i64::try_from(rank).map_err(|_| wrong())?;
    let from_first = match number {
        ..0 if version >= NEGATIVE_AXES => number.saturating_add(count),
        _ => number,
    };
    usize::try_from(from_first).ok().filter(|&axis| axis < rank).ok_or_else(wrong)
}

/// Returns different axes in ascending order.
pub(super) fn axes(numbers: &[i64], rank: usize, version: i64) -> Result<Vec<usize>> {
    let mut axes =
        numbers.iter().map(|&number| axis(number, rank, version)).collect::<Result<Vec<_>>>()?;
    axes.sort_unstable();
    match axes.windows(2).any(|pair| matches!(pair, [a, b] if a == b)) {
        true => Err(format!("it names an axis twice: {numbers:?}")),
        false => Ok(axes),
    }
}

/// Returns the order of axes of a transposition of `rank` axes.
pub(super) fn order(node: &Node<'_>, rank: usize) -> Result<Vec<usize>> {
    let Some(order) = node.integers("perm") else { return Ok((0..rank).rev().collect()) };
    let order: Option<Vec<usize>> = order.iter().map(|&axis| usize::try_from(axis).ok()).collect();
    let order = order.filter(|order| {
        let mut sorted = order.clone();
        sorted.sort_unstable();
        sorted.into_iter().eq(0..rank)
    });
    order.ok_or_else(|| format!("its axes are not a permutation of {rank} axes"))
}

/// Returns the shape that a reshape requests. A 0 keeps the previous size, unless `zeros` says that
/// 0 is a size. A -1 is the size that remains.
pub(super) fn reshaped(target: &[i64], shape: &[usize], zeros: bool) -> Result<Vec<usize>> {
    let wrong = || format!("it makes {target:?} of {shape:?}");
    let mut found = Vec::new();
    let mut open = None;
    for (place, &size) in target.iter().enumerate() {
        found.push(match size {
            -1 if open.is_none() => {
                open = Some(place);
                1
            }
            0 if !zeros => *shape.get(place).ok_or_else(wrong)?,
            1.. => usize::try_from(size).map_err(|_| wrong())?,
            _ => return Err(wrong()),
        });
    }
    let count = |sizes: &[usize]| sizes.iter().try_fold(1usize, |all, &size| all.checked_mul(size));
    let needed = count(shape).ok_or_else(wrong)?;
    let rest = count(&found).ok_or_else(wrong)?;
    if let Some(size) = open.and_then(|place| found.get_mut(place)) {
        // The comparison below finds a remainder.
        *size = needed.checked_div(rest).ok_or_else(wrong)?;
    }
    match count(&found) == Some(needed) {
        true => Ok(found),
        false => Err(wrong()),
    }
}

/// Returns the shape without these axes, which must have size 1.
pub(super) fn squeezed(shape: &[usize], axes: &[usize]) -> Result<Vec<usize>> {
    match axes.iter().all(|&axis| shape.get(axis) == Some(&1)) {
        true => {
            let kept = shape.iter().enumerate().filter(|(axis, _)| !axes.contains(axis));
            Ok(kept.map(|(_, &size)| size).collect())
        }
        false => Err(format!("it drops the axes {axes:?} of the shape {shape:?}")),
    }
}

/// Returns the shape with additional axes of size 1, at these places of the result.
pub(super) fn unsqueezed(shape: &[usize], axes: &[usize]) -> Vec<usize> {
    let mut sizes = shape.iter().copied();
    let rank = shape.len().saturating_add(axes.len());
    let size = |axis: usize| if axes.contains(&axis) { Some(1) } else { sizes.next() };
    (0..rank).filter_map(size).collect()
}

/// Returns the start and the end of a slice of `count` numbers.
pub(super) fn bounds(start: i64, end: i64, count: usize) -> (usize, usize) {
    let whole = i64::try_from(count).unwrap_or(i64::MAX);
    let place = |bound: i64| {
        let bound = if bound < 0 { bound.saturating_add(whole) } else { bound };
        usize::try_from(bound.clamp(0, whole)).unwrap_or(0)
    };
    let start = place(start);
    let end = place(end);
    (start, end.max(start))
}

/// Returns the sizes of a shape, or the part of them that the node selects.
pub(super) fn shape_of(node: &Node<'_>, sizes: Vec<Option<i64>>) -> Constant {
    let start = node.integer("start", 0);
    let end = node.integer("end", i64::MAX);
    let (start, end) = bounds(start, end, sizes.len());
    Constant::of_integers(sizes.get(start..end).unwrap_or_default().to_vec())
}

/// Returns the axes of a node, from its attribute or its additional input.
pub(super) fn named_axes(node: &Node<'_>, input: Option<&Constant>) -> Result<Option<Vec<i64>>> {
    match (node.integers("axes"), input) {
        (Some(axes), _) => Ok(Some(axes.to_vec())),
        (None, Some(input)) => input.integers().map(Some),
        (None, None) => Ok(None),
    }
}

/// Rejects a dropout in training mode.
pub(super) fn check_dropout(training: Option<&Constant>) -> Result<()> {
    match training.map(Constant::integer).transpose()? {
        None | Some(0) => Ok(()),
        Some(_) => Err("it is in training mode: export the model for inference".into()),
    }
}

/// Computes a node of constants alone, if it is supported.
pub(super) fn evaluated(
    node: &Node<'_>,
    version: i64,
    inputs: &[Option<Rc<Constant>>],
    beside: &mut Beside<'_>,
) -> Result<Constant> {
    let input = |number: usize| inputs.get(number).and_then(Option::as_deref);
    let needed = |number: usize| input(number).ok_or_else(|| "an input is missing".to_owned());
    if node.operator == "Constant" {
        return given(node, beside);
    }
    let x = needed(0)?;
    let rank = x.shape.len();
    Ok(match node.operator.as_str() {
        "Identity" => x.clone(),
        "Dropout" => {
            check_dropout(input(2))?;
            x.clone()
        }
        "Cast" => cast(x, node.integer("to", 0))?,
        "Transpose" => {
            let order = order(node, rank)?;
            let shape = order.iter().filter_map(|&axis| x.shape.get(axis).copied()).collect();
            Constant { shape, numbers: x.numbers.at(&permuted(&x.shape, &order)) }
        }
        "Reshape" => {
            let target = needed(1)?.integers()?;
            x.with_shape(reshaped(&target, &x.shape, node.integer("allowzero", 0) != 0)?)
        }
        "Squeeze" => {
            let axes = match named_axes(node, input(1))? {
                Some(numbers) => axes(&numbers, rank, version)?,
                None => (0..rank).filter(|&axis| x.shape.get(axis) == Some(&1)).collect(),
            };
            x.with_shape(squeezed(&x.shape, &axes)?)
        }
        "Unsqueeze" => {
            let numbers = named_axes(node, input(1))?.ok_or("its axes are missing")?;
            let axes = axes(&numbers, rank.saturating_add(numbers.len()), version)?;
            x.with_shape(unsqueezed(&x.shape, &axes))
        }
        "Concat" => {
            let all = inputs.iter().map(Option::as_deref).collect::<Option<Vec<_>>>();
            joined(node, version, &all.ok_or("an input is missing")?)?
        }
        "Gather" => gathered(node, version, x, needed(1)?)?,
        "Slice" => sliced(node, version, x, &[input(1), input(2), input(3), input(4)])?,
        "Shape" => {
            let sizes = x.shape.iter().map(|&size| i64::try_from(size).ok()).collect();
            shape_of(node, sizes)
        }
        "Neg" => mapped(x, |x| -x, i64::checked_neg)?,
        "Sqrt" => mapped(x, f64::sqrt, |_| None)?,
        "Add" => combined(x, needed(1)?, |x, y| x + y, i64::checked_add)?,
        "Sub" => combined(x, needed(1)?, |x, y| x - y, i64::checked_sub)?,
        "Mul" => combined(x, needed(1)?, |x, y| x * y, i64::checked_mul)?,
        "Div" => combined(x, needed(1)?, |x, y| x / y, i64::checked_div)?,
        _ => {
            return Err(
                "it is computed of constants alone: let the exporter or onnxsim fold constants"
                    .into(),
            );
        }
    })
}

/// Returns the value of a constant node.
fn given(node: &Node<'_>, beside: &mut Beside<'_>) -> Result<Constant> {
    let [attribute] = &node.attributes[..] else {
        return Err(format!("it has {} values: one is needed", node.attributes.len()));
    };
    let floats = |numbers: Vec<f64>| Numbers::Floats { numbers, single: true };
    Ok(match &attribute.content {
        Content::Tensor(stored) => stored.read(beside).map_err(|error| error.to_string())?,
        Content::Float(number) => Constant { shape: vec![], numbers: floats(vec![*number]) },
        Content::Integer(number) => {
            Constant { shape: vec![], numbers: Numbers::Integers(vec![Some(*number)]) }
        }
        Content::Floats(numbers) => {
            Constant { shape: vec![numbers.len()], numbers: floats(numbers.clone()) }
        }
        Content::Integers(numbers) => {
            Constant::of_integers(numbers.iter().copied().map(Some).collect())
        }
        Content::Text(_) | Content::Texts(_) | Content::Other => {
            return Err("numbers are needed".into());
        }
    })
}

fn to_single(x: f64) -> f64 {
    f64::from(x as f32)
}

fn cast(x: &Constant, to: i64) -> Result<Constant> {
    let refused = || format!("it makes the data type {to} of a constant: floats are possible");
    let floats = |numbers: Vec<f64>, single: bool| Numbers::Floats {
        numbers: if single { numbers.into_iter().map(to_single).collect() } else { numbers },
        single,
    };
    let whole = |&x: &f64| {
        // Beyond this limit, programs convert a number in different ways.
        let limit = f64::from(i32::MAX);
        (-limit..=limit).contains(&x).then_some(Some(x as i64))
    };
    let numbers = match (to, &x.numbers) {
        (FLOAT | DOUBLE, Numbers::Floats { numbers, .. }) => floats(numbers.clone(), to == FLOAT),
        (FLOAT | DOUBLE, Numbers::Integers(_)) => {
            floats(x.integers()?.into_iter().map(|n| n as f64).collect(), to == FLOAT)
        }
        (INT64, Numbers::Integers(_)) => x.numbers.clone(),
        (INT32, Numbers::Integers(numbers)) => {
            let fits = |number: &Option<i64>| number.is_none_or(|n| i32::try_from(n).is_ok());
            match numbers.iter().all(fits) {
                true => x.numbers.clone(),
                false => return Err(refused()),
            }
        }
        (INT32 | INT64, Numbers::Floats { numbers, .. }) => {
            let numbers = numbers.iter().map(whole).collect::<Option<_>>();
            Numbers::Integers(numbers.ok_or_else(refused)?)
        }
        _ => return Err(refused()),
    };
    Ok(Constant { shape: x.shape.clone(), numbers })
}

fn joined(node: &Node<'_>, version: i64, parts: &[&Constant]) -> Result<Constant> {
    let first = parts.first().ok_or("an input is missing")?;
    let rest = first.shape.get(1..).unwrap_or_default();
    if axis(node.integer("axis", 0), first.shape.len(), version)? != 0
        || parts.iter().any(|part| part.shape.get(1..) != Some(rest))
    {
        return Err("constants are joined along their first axis".into());
    }
    let rows = parts.iter().filter_map(|part| part.shape.first());
    let rows = rows.fold(0usize, |all, &rows| all.saturating_add(rows));
    let single = matches!(&first.numbers, Numbers::Floats { single: true, .. });
    let numbers = match &first.numbers {
        Numbers::Floats { .. } => {
            let numbers = parts.iter().map(|part| part.floats()).collect::<Result<Vec<_>>>()?;
            Numbers::Floats { numbers: numbers.concat(), single }
        }
        Numbers::Integers(_) => {
            let numbers = parts.iter().map(|part| part.sizes()).collect::<Result<Vec<_>>>()?;
            Numbers::Integers(numbers.concat())
        }
    };
    Ok(Constant { shape: [&[rows], rest].concat(), numbers })
}

fn gathered(node: &Node<'_>, version: i64, x: &Constant, indices: &Constant) -> Result<Constant> {
    if axis(node.integer("axis", 0), x.shape.len(), version)? != 0 {
        return Err("rows of constants are picked along their first axis".into());
    }
    let rows = x.shape.first().copied().unwrap_or(0);
    let numbers = indices.integers()?;
    let rows = numbers.iter().map(|&number| axis(number, rows, NEGATIVE_AXES));
    let rows = rows.collect::<Result<Vec<_>>>()?;
    let shape = [&indices.shape[..], x.shape.get(1..).unwrap_or_default()].concat();
    Ok(Constant { shape, numbers: x.numbers.at(&x.rows(rows.into_iter())) })
}

fn sliced(
    node: &Node<'_>,
    version: i64,
    x: &Constant,
    inputs: &[Option<&Constant>; 4],
) -> Result<Constant> {
    let [starts, ends, axes, steps] = *inputs;
    let numbers = |name: &str, input: Option<&Constant>| match (node.integers(name), input) {
        (Some(numbers), _) => Ok(Some(numbers.to_vec())),
        (None, input) => input.map(Constant::integers).transpose(),
    };
    let starts = numbers("starts", starts)?;
    let ends = numbers("ends", ends)?;
    let axes = numbers("axes", axes)?.unwrap_or_else(|| vec![0]);
    let steps = numbers("steps", steps)?.unwrap_or_else(|| vec![1]);
    let (Some([start]), Some([end]), [along], [1]) =
        (starts.as_deref(), ends.as_deref(), &axes[..], &steps[..])
    else {
        return Err("constants are cut along their first axis, without steps".into());
    };
    if axis(*along, x.shape.len(), version)? != 0 {
        return Err("constants are cut along their first axis, without steps".into());
    }
    let (start, end) = bounds(*start, *end, x.shape.first().copied().unwrap_or(0));
    let count = end.saturating_sub(start);
    let shape = [&[count], x.shape.get(1..).unwrap_or_default()].concat();
    Ok(Constant { shape, numbers: x.numbers.at(&x.rows(start..end)) })
}

/// Rejects integers outside 32 bits, which programs may compute differently.
fn checked(number: Option<i64>) -> Result<Option<i64>> {
    let number = number.filter(|&number| i32::try_from(number).is_ok());
    number.map(Some).ok_or_else(|| "its result is not an integer of 32 bits".into())
}

fn mapped(
    x: &Constant,
    float: impl Fn(f64) -> f64,
    integer: impl Fn(i64) -> Option<i64>,
) -> Result<Constant> {
    let numbers = match &x.numbers {
        Numbers::Floats { numbers, single } => {
            let numbers = numbers.iter().map(|&x| float(x));
            let numbers = numbers.map(|x| if *single { to_single(x) } else { x });
            Numbers::Floats { numbers: numbers.collect(), single: *single }
        }
        Numbers::Integers(_) => {
            let numbers = x.integers()?.into_iter().map(|x| checked(integer(x)));
            Numbers::Integers(numbers.collect::<Result<_>>()?)
        }
    };
    Ok(Constant { shape: x.shape.clone(), numbers })
}

fn combined(
    x: &Constant,
    y: &Constant,
    float: impl Fn(f64, f64) -> f64,
    integer: impl Fn(i64, i64) -> Option<i64>,
) -> Result<Constant> {
    let rank = x.shape.len().max(y.shape.len());
    let padded = |shape: &[usize]| {
        let ones = rank.saturating_sub(shape.len());
        [vec![1; ones], shape.to_vec()].concat()
    };
    let left = padded(&x.shape);
    let right = padded(&y.shape);
    let shape: Vec<usize> =
        left.iter().zip(&right).map(|(&a, &b)| if a == 1 { b } else { a }).collect();
    // Both factors can be large, so the product may overflow.
    let count = shape.iter().try_fold(1usize, |all, &size| all.checked_mul(size));
    if count.is_none_or(|count| count > x.numbers.len().max(y.numbers.len())) {
        return Err("of constants that are combined, one must have the shape of the result".into());
    }
    let numbers = match (x.spread(&shape)?, y.spread(&shape)?) {
        (
            Numbers::Floats { numbers, single },
            Numbers::Floats { numbers: others, single: other },
        ) if single == other => {
            let numbers = numbers.iter().zip(&others).map(|(&x, &y)| float(x, y));
            let numbers = numbers.map(|x| if single { to_single(x) } else { x });
            Numbers::Floats { numbers: numbers.collect(), single }
        }
        (Numbers::Integers(numbers), Numbers::Integers(others)) => {
            let pairs = numbers.into_iter().zip(others).map(|pair| match pair {
                (Some(x), Some(y)) => checked(integer(x, y)),
                _ => Err("it depends on the number of samples".into()),
            });
            Numbers::Integers(pairs.collect::<Result<_>>()?)
        }
        _ => return Err("it takes numbers of one data type".into()),
    };
    Ok(Constant { shape, numbers })
}
