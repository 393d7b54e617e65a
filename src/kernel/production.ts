/**
 * Loaded before everything else, by `main.ts` and by the tests. In any other mode the framework renders each invalid value,
 * and a sample of the expected one, into the error. That is slow for a large body, and throws for a value without a string
 * form (`{ "toString": 1 }`).
 */
Bun.env.NODE_ENV = "production";

export {};
