/**
 * Imported before everything else. In any other mode the framework renders each refused value, and a sample of what it
 * wanted, into the error: slow for a large body, and it throws for a value that has no text (`{ "toString": 1 }`).
 */
Bun.env.NODE_ENV = "production";
