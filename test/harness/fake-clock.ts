/**
 * The environment of a process whose clock of the day is not the machine's, by libfaketime. Timers keep to the monotonic clock,
 * as they do when a real clock is set.
 */
export function fakeClock(settings: Record<string, string>): Record<string, string> {
  const [library] = [...new Bun.Glob("usr/lib/*/faketime/libfaketimeMT.so.1").scanSync({ cwd: "/" })];
  if (library === undefined) throw new Error("libfaketime is not installed (Debian's package is called faketime)");
  return { LD_PRELOAD: `/${library}`, FAKETIME_DONT_FAKE_MONOTONIC: "1", NO_FAKE_STAT: "1", ...settings };
}
