/** How the tests of a folder run, where they do not run like all others. */
type Kind = {
  /** Starts browsers, programs or whole servers: each test has three minutes instead of half of one. */
  slow?: true;
  /** Slow, but starts no browser and builds nothing: may run beside another slow one. */
  anywhere?: true;
  /** Measures how smoothly something runs, or loads the machine on purpose: last, with nothing beside it. */
  alone?: true;
  /** Needs a browser, network namespaces, other servers or minutes: not part of `bin/test --quick`. */
  notQuick?: true;
  /**
   * Plugs networks into the machine, so it has one to itself: a browser gives up every request that is under way when the
   * machine's addresses change, also those of another test beside it.
   */
  ownNetwork?: true;
  /** Where the binary is built, servers and commands are started from that. The others have not been tried so. */
  built?: true;
};

/** By the folder of test/; of browser/, each folder within is a kind of its own. A folder that is not here is quick. */
const KINDS: Record<string, Kind> = {
  cli: { built: true },
  people: { built: true },
  docs: { built: true },
  compiled: { built: true, slow: true, notQuick: true },
  ops: { built: true, slow: true, notQuick: true, ownNetwork: true },
  package: { built: true, slow: true, notQuick: true },
  node: { built: true, slow: true, anywhere: true, notQuick: true, ownNetwork: true },
  edge: { slow: true, notQuick: true },
  turn: { slow: true, notQuick: true },
  foreign: { slow: true, notQuick: true, ownNetwork: true },
  livekit: { built: true, slow: true, notQuick: true },
  standby: { built: true, slow: true, notQuick: true },
  recordings: { slow: true, notQuick: true },
  acme: { slow: true, anywhere: true, notQuick: true },
  participant: { slow: true, anywhere: true, notQuick: true },
  "load-test": { notQuick: true },
  networks: { slow: true, alone: true, notQuick: true, ownNetwork: true },
  verdicts: { built: true, slow: true, alone: true, notQuick: true, ownNetwork: true },
  "browser/playground": { slow: true, notQuick: true },
  "browser/dashboard": { slow: true, notQuick: true },
  "browser/sdk": { built: true, slow: true, notQuick: true },
  "browser/docs": { slow: true, notQuick: true },
  "browser/media": { built: true, slow: true, alone: true, notQuick: true },
  browser: { slow: true, alone: true, notQuick: true },
  faults: { built: true, slow: true, alone: true, notQuick: true },
};

/**
 * About how long the longest of the quick ones take on two cores. Two run at a time: one that begins last holds up the
 * whole for as long as it takes.
 */
const SECONDS: Record<string, number> = {
  sfu: 90,
  security: 75,
  contract: 40,
  chat: 30,
  cli: 20,
  docs: 20,
  observability: 20,
  sdk: 20,
  accounts: 15,
  signaling: 15,
  spec: 15,
  people: 10,
};
/** What is not named there. */
const SHORT_SECONDS = 5;

/** Files of quick folders that kill servers again and again, storm them or build native code: not for `--quick`. */
export const NOT_QUICK = [
  "test/chat/attachment-crash.test.ts",
  "test/chat/crash.test.ts",
  "test/chat/storm.test.ts",
  "test/sfu/native/sanitizer.test.ts",
  "test/signaling/churn.test.ts",
];

/** Code for tests, and measurements: nothing that passes or fails. */
const NOT_TESTS = ["bench", "harness"];

export function kindOf(folder: string): Kind {
  return KINDS[folder] ?? (folder.startsWith("browser/") ? { slow: true, notQuick: true } : {});
}

export function secondsOf(folder: string): number {
  return SECONDS[folder] ?? SHORT_SECONDS;
}

/** Test files by their folder; those that take longest begin. */
export function testFolders(root: string, part: string, quick: boolean): Map<string, string[]> {
  const files = [...new Bun.Glob("test/**/*.test.{ts,tsx}").scanSync({ cwd: root })].filter(
    (file) => file.includes(part) && !(quick && NOT_QUICK.includes(file)),
  );
  const byFolder = Map.groupBy(files.sort(), (file) => {
    const [, folder = "", name, inside] = file.split("/");
    if (folder === "browser" && inside !== undefined) return `browser/${name}`;
    return name === undefined ? "." : folder;
  });
  const chosen = [...byFolder].filter(
    ([folder]) => !NOT_TESTS.includes(folder) && !(quick && kindOf(folder).notQuick === true),
  );
  const rank = ([folder, files]: [string, string[]]) =>
    kindOf(folder).slow === true ? 1_000 + files.length : secondsOf(folder) + files.length / 1_000;
  return new Map(chosen.sort((a, b) => rank(b) - rank(a)));
}
