// suite: all
import { expect, test } from "bun:test";
import { crashRounds } from "./crash.ts";

const rounds = Number(process.env.CRASH_ROUNDS ?? 4);

test(
  `[durability] kill -9 under load, ${rounds} times: nothing acknowledged is lost, nothing retried is doubled, no number is skipped`,
  async () => {
    const report = await crashRounds(rounds, Math.random);
    expect(report).toMatchObject({ lost: 0, duplicates: 0, gaps: 0, changed: 0 });
    expect(report.acknowledged).toBeGreaterThan(rounds * 20);
  },
  60_000 + rounds * 15_000,
);
