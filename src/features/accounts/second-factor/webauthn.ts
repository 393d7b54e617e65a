/**
 * The WebAuthn library, a module of its own that is loaded on first use. Its certificates need the same package first as
 * werift's: without this import the bundler shares them with the media worker in a chunk that is evaluated before it.
 */
import "../../../sfu/werift/reflect.ts";

export {
  generateAuthenticationOptions,
  generateRegistrationOptions,
  verifyAuthenticationResponse,
  verifyRegistrationResponse,
} from "@simplewebauthn/server";
