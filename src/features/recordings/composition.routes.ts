import type { Http } from "../../kernel/http/http.ts";
import { sharedRoutes } from "../../kernel/http/shared-routes.ts";
import { Recording } from "../../protocol/recordings.ts";
import { ComposeRecording } from "./recording.schema.ts";
import type { Recordings } from "./recordings.ts";

export const compositionRoutes = (http: Http, recordings: Recordings) =>
  sharedRoutes(http, { prefix: "/recordings/:recordingId/composition", tag: "recordings" }, (app, { route }) =>
    app
      .post(
        "",
        async ({ scope, params, body, author, set }) => {
          set.status = 202;
          return recordings.present(await recordings.compose(scope, params.recordingId, body, author));
        },
        {
          ...route("recordings:manage", "Compose one video of a recording; the record shows its progress", [
            "SVC_RECORDING_NOT_FOUND",
            "SVC_CONFLICT",
            "SVC_COMPOSER_UNAVAILABLE",
            "SVC_STORAGE_FULL",
          ]),
          body: ComposeRecording,
          response: { 202: Recording },
        },
      )
      .delete(
        "",
        async ({ scope, params, author, set }) => {
          await recordings.discardComposition(scope, params.recordingId, author);
          set.status = 204;
        },
        route("recordings:manage", "Cancel the composition of a recording, or delete it", ["SVC_RECORDING_NOT_FOUND"]),
      ),
  );
