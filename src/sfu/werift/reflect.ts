/**
 * This package has to be evaluated before werift's certificates. It is imported through a module of its own, because
 * the bundler evaluates a CommonJS package at the position of the module that imports it, and evaluates an entry point
 * last.
 */
import "reflect-metadata";
