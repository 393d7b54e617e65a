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

/** By the folder below test/ (`folderOf`). A folder that is not here is quick. */
const KINDS: Record<string, Kind> = {
  cli: { built: true },
  "features/privacy": { built: true },
  "web/docs": { built: true },
  "e2e/binary": { built: true, slow: true, notQuick: true },
  ops: { built: true, slow: true, notQuick: true, ownNetwork: true },
  "web/package": { built: true, slow: true, notQuick: true },
  "nodes/remote": { built: true, slow: true, anywhere: true, notQuick: true, ownNetwork: true },
  "network/tls": { slow: true, notQuick: true },
  "network/turn": { slow: true, notQuick: true },
  foreign: { slow: true, notQuick: true, ownNetwork: true },
  "gateways/livekit": { built: true, slow: true, notQuick: true },
  cluster: { built: true, slow: true, notQuick: true },
  "features/recordings": { slow: true, notQuick: true },
  "network/acme": { slow: true, anywhere: true, notQuick: true },
  "rtc-client": { slow: true, anywhere: true, notQuick: true },
  "ops/load-test": { notQuick: true },
  "e2e/networks": { slow: true, alone: true, notQuick: true, ownNetwork: true },
  "e2e/verdicts": { built: true, slow: true, alone: true, notQuick: true, ownNetwork: true },
  "e2e/playground": { slow: true, notQuick: true },
  "e2e/dashboard": { slow: true, notQuick: true },
  "e2e/sdk": { built: true, slow: true, notQuick: true },
  "e2e/docs": { slow: true, notQuick: true },
  "e2e/media": { built: true, slow: true, alone: true, notQuick: true },
  e2e: { slow: true, alone: true, notQuick: true },
  "e2e/faults": { built: true, slow: true, alone: true, notQuick: true },
};

/**
 * About how long the longest of the quick ones take on two cores. Two run at a time: one that begins last holds up the
 * whole for as long as it takes.
 */
const SECONDS: Record<string, number> = {
  sfu: 90,
  security: 75,
  spec: 55,
  "features/chat": 30,
  cli: 20,
  "web/docs": 20,
  "features/sessions": 20,
  "web/sdk": 20,
  "features/accounts": 15,
  "gateways/signaling": 15,
  "features/privacy": 10,
};
/** What is not named there. */
const SHORT_SECONDS = 5;

/** Files of quick folders that kill servers again and again, storm them or build native code: not for `--quick`. */
export const NOT_QUICK = [
  "test/features/chat/attachment-crash.test.ts",
  "test/features/chat/crash.test.ts",
  "test/features/chat/storm.test.ts",
  "test/sfu/fast-path/sanitizer.test.ts",
  "test/gateways/signaling/churn.test.ts",
];

/** Code for tests, and measurements: nothing that passes or fails. */
const NOT_TESTS = ["bench", "harness"];

export function kindOf(folder: string): Kind {
  return KINDS[folder] ?? (folder.startsWith("e2e/") ? { slow: true, notQuick: true } : {});
}

export function secondsOf(folder: string): number {
  return SECONDS[folder] ?? SHORT_SECONDS;
}

/** Test files by their folder; those that take longest begin. */
export function testFolders(root: string, part: string, quick: boolean): Map<string, string[]> {
  const files = [...new Bun.Glob("test/**/*.test.{ts,tsx}").scanSync({ cwd: root })].filter(
    (file) => file.includes(part) && !(quick && NOT_QUICK.includes(file)),
  );
  const byFolder = Map.groupBy(files.sort(), folderOf);
  const chosen = [...byFolder].filter(
    ([folder]) => !NOT_TESTS.includes(folder) && !(quick && kindOf(folder).notQuick === true),
  );
  const rank = ([folder, files]: [string, string[]]) =>
    kindOf(folder).slow === true ? 1_000 + files.length : secondsOf(folder) + files.length / 1_000;
  return new Map(chosen.sort((a, b) => rank(b) - rank(a)));
}

/** Folders of `test/` whose own folders run in processes of their own. */
const GROUPS = ["e2e", "features", "gateways", "network", "nodes", "ops", "web"];

/** The folder whose tests run together in one process: `test/features/chat/…` is `features/chat`. */
export function folderOf(file: string): string {
  const [, first = "", second, third] = file.split("/");
  if (second === undefined) return ".";
  return GROUPS.includes(first) && third !== undefined ? `${first}/${second}` : first;
}
