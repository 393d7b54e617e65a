/**
 * The WebAuthn library, a module of its own that is loaded on first use. Like werift, it needs `reflect-metadata` to be
 * loaded first: without this import the bundler puts the shared certificate code into a chunk that is evaluated
 * earlier.
 */
import "../../../sfu/werift/reflect.ts";

export {
  generateAuthenticationOptions,
  generateRegistrationOptions,
  verifyAuthenticationResponse,
  verifyRegistrationResponse,
} from "@simplewebauthn/server";
