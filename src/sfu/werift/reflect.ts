/**
 * werift's certificates need this package before they are evaluated. It is a separate module that is imported first, because the
 * bundler evaluates a CommonJS package where the importing module stands, and an entry point stands last.
 */
import "reflect-metadata";
