/** Types that a browser shows or plays without running scripts. SVG, HTML, XML and PDF can contain scripts. */
const HARMLESS_INLINE = new Set([
  "image/png",
  "image/jpeg",
  "image/gif",
  "image/webp",
  "image/avif",
  "image/bmp",
  "audio/mpeg",
  "audio/mp4",
  "audio/aac",
  "audio/ogg",
  "audio/opus",
  "audio/flac",
  "audio/wav",
  "audio/webm",
  "video/mp4",
  "video/ogg",
  "video/webm",
  "video/quicktime",
]);

/** Path separators, control characters, and marks that reverse the displayed name, as in `gpj.exe`. */
const UNSAFE_IN_FILENAME = /[\p{Cc}\p{Zl}\p{Zp}\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069/\\]/gu;

/** RFC 6266: an ASCII name for old clients, the full name in UTF-8 for current ones. */
export function contentDisposition({ filename, mimeType }: { filename: string; mimeType: string }): string {
  const kind = HARMLESS_INLINE.has(mimeType.toLowerCase()) ? "inline" : "attachment";
  const name = filename.toWellFormed().replace(UNSAFE_IN_FILENAME, "_");
  const plain = name.replace(/[^\x20-\x7e]|["%]/gu, "_");
  return `${kind}; filename="${plain}"; filename*=UTF-8''${encodeExtended(name)}`;
}

/** RFC 8187: `encodeURIComponent` leaves ' ( ) * unencoded, which this grammar forbids. */
function encodeExtended(text: string): string {
  return encodeURIComponent(text).replace(/['()*]/g, (char) => `%${char.charCodeAt(0).toString(16).toUpperCase()}`);
}
