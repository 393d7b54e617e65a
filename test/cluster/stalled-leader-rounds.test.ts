// suite: soak
import { testStalls } from "./stalled-leader.ts";

testStalls(20);
