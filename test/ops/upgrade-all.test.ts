// suite: soak
import { testUpgrades } from "./upgrades.ts";

testUpgrades((migrations) => Array.from({ length: migrations - 1 }, (_, i) => i + 1));
