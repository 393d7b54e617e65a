import type { Config } from "../../../src/kernel/config/index.ts";
import { testConfig } from "../../harness/test-config.ts";

const isBudget = (name: string) => /^RATE_LIMIT_(?!WINDOW)|^CHAT_\w+_RATE_LIMIT$|_PER_WINDOW$/.test(name);

/** A configuration with this value for every rate limit. */
export function budgets(limit: number): Partial<Config> {
  const names = Object.keys(testConfig({})).filter(isBudget);
  return Object.fromEntries(names.map((name) => [name, limit])) as Partial<Config>;
}

/** A configuration without rate limits, for tests with many requests. */
export const UNLIMITED = { ...budgets(1_000_000), REGISTRATION: "open" as const };
