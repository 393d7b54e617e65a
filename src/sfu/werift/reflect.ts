/**
 * werift's certificates need this package to be evaluated before they are. It is imported through a module of its own, because the
 * bundler evaluates a CommonJS package at the position of the module that imports it, and evaluates an entry point last.
 */
import "reflect-metadata";
