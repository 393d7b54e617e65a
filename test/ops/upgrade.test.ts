import { testUpgrades } from "./upgrades.ts";

/** Every sixteenth schema and the last three; every one of them is tested by upgrade-all.test.ts. */
testUpgrades((migrations) =>
  Array.from({ length: migrations - 1 }, (_, i) => i + 1).filter((count) => count % 16 === 1 || count > migrations - 4),
);
