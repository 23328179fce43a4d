// Commands that do a job which is too large for the page. They make the same files.

/** Quotes a word for a shell. */
const quoted = (text) => `'${text.replaceAll("'", "'\\''")}'`;

/** Quotes a word only if a shell would not take it as it is. */
const word = (text) => (/^[\w.,:@%+=/-]+$/.test(text) ? text : quoted(text));

/**
 * Returns the lines of commands for a planned job. `file` names the table, `model` the file of a model that
 * scores rows, and `words` are the options that read the table.
 */
export function commands({ server, file, job, summary, words, model }) {
  const { kind, target, by, iterations, bins } = job;
  const table = quoted(file);
  const at = `--url ${quoted(server)} --token-file TOKEN`;
  const sent = "--evaluation-key keys/evaluation.key -i table.ct";
  const keygen = (purpose, options) =>
    ["sudare keygen --params auto --for", purpose, ...options, "--passphrase --out keys"].join(" ");
  const result = kind === "train" ? "model" : kind === "predict" ? "scores" : kind;
  const decrypt = `sudare decrypt --secret keys/secret.key -i ${result}.ct -o ${result}.json`;
  if (kind === "predict") {
    const { classes, unused } = summary.scoring;
    const drop = unused.length > 0 ? ` --drop ${word(unused.map(listed).join(","))}` : "";
    return [
      keygen(summary.named, classes > 2 ? [`--classes ${classes}`] : []),
      `sudare encrypt --secret keys/secret.key --data ${table} --like ${quoted(model)}${drop} -o table.ct`,
      `sudare encrypt --secret keys/secret.key --model ${quoted(model)} -o model.ct`,
      `sudare remote predict ${sent} --model model.ct -o scores.ct ${at}`,
      decrypt,
    ];
  }
  const options = [
    ...(target === undefined ? [] : [`--target ${quoted(target)}`]),
    ...(by === undefined ? [] : [`--by ${quoted(by)}`]),
    ...(bins === undefined ? [] : [`--bins ${bins}`]),
    ...(iterations ? [`--iterations ${iterations}`] : []),
    ...words.map(word),
  ];
  const labels = [target && ` --target ${quoted(target)}`, by && ` --by ${quoted(by)}`].filter(Boolean).join("");
  return [
    keygen(`${kind}:${table}`, options),
    // The directory of the keys has the coding of the table, so its options are not repeated.
    `sudare encrypt --secret keys/secret.key --data ${table}${labels} -o table.ct`,
    `sudare remote ${kind} ${sent} ${kind === "train" ? "--history " : ""}-o ${result}.ct ${at}`,
    decrypt,
    ...(kind === "train" ? [`sudare report --model model.json --data ${table} -o report.html`] : []),
  ];
}

/** Quotes a name in a list between commas. */
const listed = (name) => (/[",\n\r]/.test(name) ? `"${name.replaceAll('"', '""')}"` : name);
