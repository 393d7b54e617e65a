/** networks: a call over links that are narrow, lossy, shaky or shared. `bin/bench networks [NAME…]`, Janus beside where its name says so */
import { openNetworkCall, type StartHost } from "../e2e/networks/call.ts";
import { type Measured, report } from "./harness/report.ts";
import { startJanus } from "./networks/janus.ts";
import { type Outcome, runScenario, SCENARIOS, type Scenario } from "./networks/scenarios.ts";

const wanted = process.argv.slice(2);
const isWanted = (name: string) => wanted.length === 0 || wanted.some((part) => name.includes(part));
const outcomes: Outcome[] = [];

async function runAll(scenarios: readonly Scenario[], startHost?: StartHost): Promise<void> {
  if (scenarios.length === 0) return;
  const call = await openNetworkCall(startHost);
  try {
    for (const scenario of scenarios) {
      const outcome = await runScenario(call, scenario);
      outcomes.push(outcome);
      console.log(`${outcome.name}: ${JSON.stringify(outcome)}`);
    }
  } finally {
    await call.close();
  }
}

await runAll(SCENARIOS.filter(({ name }) => isWanted(name)));
// The same with servers that ignore the bandwidth of the path: no goals, only figures for comparison.
const beside = SCENARIOS.filter(({ isBeside }) => isBeside).map((one) => ({
  ...one,
  name: `Janus, ${one.name}`,
  goals: {},
}));
await runAll(
  beside.filter(({ name }) => isWanted(name)),
  startJanus,
);
const figures: Measured[] = outcomes.flatMap((outcome) => {
  const { name, goals } = outcome;
  const rows: Measured[] = [{ what: `${name}: first frame`, value: outcome.firstFrameMs ?? Number.NaN, unit: "ms" }];
  rows.push({
    what: `${name}: queue p95`,
    value: outcome.queueP95Ms,
    unit: "ms",
    ...(goals.queue ? { goal: { atMost: 250 } } : {}),
  });
  rows.push({ what: `${name}: queue p95 from 10 s on`, value: outcome.settledQueueP95Ms, unit: "ms" });
  if (outcome.share !== null)
    rows.push({
      what: `${name}: share of the link`,
      value: outcome.share,
      unit: "",
      ...(goals.share ? { goal: { atLeast: 0.75 } } : {}),
    });
  rows.push({
    what: `${name}: longest standstill`,
    value: outcome.longestStandstillMs,
    unit: "ms",
    ...(goals.freezes ? { goal: { atMost: 1000 } } : {}),
  });
  if (outcome.fairness !== null)
    rows.push({
      what: `${name}: fairness`,
      value: outcome.fairness,
      unit: "×",
      ...(goals.fairness ? { goal: { atMost: 1.5 } } : {}),
    });
  if (outcome.backMs !== null)
    rows.push({
      what: `${name}: back after`,
      value: outcome.backMs,
      unit: "ms",
      ...(goals.backWithinMs === undefined ? {} : { goal: { atMost: goals.backWithinMs } }),
    });
  return rows;
});
report("networks", figures, { outcomes });
process.exit();
