/**
 * What the DTLS library's certificates need before they are evaluated. A module of its own, imported first: the bundler
 * runs a CommonJS package where the module that imports it stands, and an entry point stands last.
 */
import "reflect-metadata";
