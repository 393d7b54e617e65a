import { testStalls } from "./stalled-leader.ts";

testStalls(2);
