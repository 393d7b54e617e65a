import { expect, test } from "bun:test";
import type { Machine } from "../bench/all/machine.ts";
import { medianOf } from "../bench/all/median.ts";
import { markdownOf, withFigures } from "../bench/all/table.ts";

const run = (value: number) => ({
  bench: "rest",
  figures: [
    { what: "requests", value: value * 100, unit: "/s" },
    { what: "ratio", value, unit: "", goal: { atLeast: 0.6 } },
  ],
});
const MACHINE: Machine = { processor: "A1", cores: 2, memoryGb: 24, system: "Linux", versions: { bun: "1" } };

test("each figure is the median of its runs, in whatever order they were", () => {
  expect(medianOf([run(0.7), run(0.5), run(0.6)])).toEqual(run(0.6).figures as never);
  expect(medianOf([run(0.7)])).toEqual(run(0.7).figures as never);
});

test("the table shows which goal was missed", () => {
  const of = (value: number) => markdownOf(MACHINE, [{ bench: "rest", runs: 3, figures: run(value).figures as never }]);
  expect(of(0.61)).toContain("| ratio | 0.61 | at least 0.6 | met |");
  expect(of(0.59)).toContain("| ratio | 0.59 | at least 0.6 | missed |");
  expect(of(0.59)).toContain("| requests | 59 /s |  |  |");
});

test("the guide shows the figures that have a goal between its marks, and is otherwise unchanged", () => {
  const guide = "before\n<!-- figures -->\nold\n<!-- /figures -->\nafter\n";
  const shown = withFigures(guide, MACHINE, [{ bench: "rest", runs: 3, figures: run(0.7).figures as never }]);
  expect(shown).toStartWith("before\n<!-- figures -->\n2 cores (A1)");
  expect(shown).toContain("| `rest` | 3 | ratio | 0.7 | at least 0.6 | met |\n<!-- /figures -->\nafter\n");
  expect(shown).not.toContain("requests");
  expect(shown).not.toContain("old");
});

test("the output of a bench begins with its name, and raw data never replaces its figures", () => {
  const script = `import { report } from "${import.meta.dir}/../bench/harness/report.ts";
    report("rest", [{ what: "ratio", value: 0.7, unit: "" }], { figures: { other: 1 }, seed: 2 });`;
  const out = Bun.spawnSync([process.execPath, "-e", script]).stdout.toString();
  const line = out.split("\n").findLast((text) => text.startsWith('{"bench":')) ?? "";
  expect(JSON.parse(line)).toEqual({ bench: "rest", figures: [{ what: "ratio", value: 0.7, unit: "" }], seed: 2 });
});
