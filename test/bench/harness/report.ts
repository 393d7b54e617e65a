/** The output of every bench: a table for people, then one JSON object for programs. */
export type Measured = { what: string; value: number; unit: string; goal?: { atMost: number } | { atLeast: number } };

/** Prints the figures and sets the exit code: a goal that is missed is a failure. */
export function report(bench: string, figures: readonly Measured[], raw: Record<string, unknown> = {}): void {
  const rows = figures.map((figure) => {
    const { what, value, unit, goal } = figure;
    const met = goal === undefined || isMet(value, goal);
    if (!met) process.exitCode = 1;
    return [
      what,
      `${round(value)} ${unit}`,
      goal === undefined ? "" : goalText(goal),
      goal === undefined ? "" : met ? "met" : "MISSED",
    ];
  });
  const header = ["", "measured", "goal", ""];
  const widths = header.map((_, column) => Math.max(...[header, ...rows].map((row) => row[column]?.length ?? 0)));
  for (const row of [header, ...rows])
    console.log(
      row
        .map((cell, i) => cell.padEnd(widths[i] ?? 0))
        .join("  ")
        .trimEnd(),
    );
  console.log(
    JSON.stringify({ bench, ...raw, figures: figures.map((figure) => ({ ...figure, value: round(figure.value) })) }),
  );
}

export function median(values: readonly number[]): number {
  const sorted = values.toSorted((a, b) => a - b);
  const middle = Math.floor(sorted.length / 2);
  const upper = sorted[middle] ?? Number.NaN;
  return sorted.length % 2 === 1 ? upper : ((sorted[middle - 1] ?? Number.NaN) + upper) / 2;
}

export function isMet(value: number, goal: NonNullable<Measured["goal"]>): boolean {
  return "atMost" in goal ? value <= goal.atMost : value >= goal.atLeast;
}

export function goalText(goal: NonNullable<Measured["goal"]>): string {
  return "atMost" in goal ? `at most ${goal.atMost}` : `at least ${goal.atLeast}`;
}

function round(value: number): number {
  return Number(value.toPrecision(4));
}

/** The value below which this share of all values lies. */
export function percentile(values: readonly number[], share: number): number {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? Number.NaN;
}
