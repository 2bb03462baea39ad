# Requests to an office: somebody else's rows, which stay there.

dp_connect <- function(url, token = Sys.getenv("DPSTATS_TOKEN"), ca = NULL) {
  parts <- tryCatch(httr2::url_parse(url), error = function(error) NULL)
  host <- if (is.null(parts$hostname)) "" else parts$hostname
  local <- host %in% c("localhost", "[::1]", "::1") || grepl("^127\\.\\d+\\.\\d+\\.\\d+$", host)
  if (!identical(parts$scheme, "https") && !(identical(parts$scheme, "http") && local)) {
    stop("url must begin with https://, as the token would cross the network in the clear", call. = FALSE)
  }
  if (!nzchar(host) || !is.null(parts$username)) stop("url must be such as 'https://office.example.org'", call. = FALSE)
  if (!is.character(token) || length(token) != 1 || !grepl("^[!-~]{20,200}$", token)) {
    stop("token must be what the keeper has handed over; or set DPSTATS_TOKEN to it", call. = FALSE)
  }
  # In an environment, so that neither str() nor print() of a result shows the token.
  secret <- new.env()
  secret$token <- token
  office <- structure(list(url = sub("/+$", "", url), secret = secret, ca = ca, local = local), class = "dp_office")
  dp_datasets(office)
  office
}

print.dp_office <- function(x, ...) {
  cat("<dp_office: ", x$url, ">\n", sep = "")
  invisible(x)
}

# A path of the office, with a body if something is sent; the content of the answer, and its status as an attribute.
office_call <- function(office, path, body = NULL, query = list()) {
  request <- httr2::request(paste0(office$url, path))
  request <- httr2::req_auth_bearer_token(request, office$secret$token)
  if (length(query)) request <- do.call(httr2::req_url_query, c(list(request), query))
  if (!is.null(body)) request <- httr2::req_body_raw(request, body, type = "application/json")
  # The token goes to the office alone: it is sent on neither by redirects nor, in the clear, through a proxy.
  options <- list(followlocation = 0L)
  if (office$local) options$noproxy <- "*"
  if (!is.null(office$ca)) options$cainfo <- office$ca
  request <- do.call(httr2::req_options, c(list(request), options))
  request <- httr2::req_timeout(request, 60)
  request <- httr2::req_error(request, is_error = function(answer) FALSE)
  # At the first contact a wrong address is said at once; an office that has answered may be starting again.
  tries <- if (isTRUE(office$secret$answered)) 6 else 1
  for (attempt in seq_len(tries)) {
    answer <- tryCatch(httr2::req_perform(request), error = function(error) error)
    failed <- inherits(answer, "error")
    if (!failed && !(httr2::resp_status(answer) %in% c(429, 502, 503, 504))) break
    if (attempt < tries) Sys.sleep(0.5 * 2^(attempt - 1))
  }
  if (failed) {
    stop(office$url, " does not answer; the same call takes a request up again, and pays for it once", call. = FALSE)
  }
  content <- tryCatch(
    jsonlite::fromJSON(httr2::resp_body_string(answer), simplifyVector = FALSE),
    error = function(error) stop("this address answers, but not as an office does", call. = FALSE)
  )
  if (httr2::resp_status(answer) >= 300) {
    kind <- if (is.null(content$error$type)) "Unavailable" else content$error$type
    text <- if (is.null(content$error$message)) "the office could not answer" else content$error$message
    stop(structure(class = c(kind, "dp_error", "error", "condition"), list(message = text, call = NULL)))
  }
  office$secret$answered <- TRUE
  attr(content, "status") <- httr2::resp_status(answer)
  content
}

json_text <- function(value) {
  as.character(jsonlite::toJSON(value, auto_unbox = TRUE, digits = NA, null = "null", na = "null"))
}

# R reads ** as ^ and prints ^. Formulas of the office write powers **; quoted levels and names stay as they are.
formula_text <- function(formula) {
  text <- paste(trimws(deparse(formula, 500L)), collapse = " ")
  pieces <- gregexpr("\"([^\"\\\\]|\\\\.)*\"|`[^`]*`", text)
  regmatches(text, pieces, invert = TRUE) <- lapply(
    regmatches(text, pieces, invert = TRUE), function(code) gsub("^", "**", code, fixed = TRUE)
  )
  text
}

# A request as it is sent. Arguments that are NULL are left to the office.
as_request <- function(formula, data, eps, family, label, more) {
  text <- if (inherits(formula, "formula")) formula_text(formula) else formula
  if (inherits(family, "family")) family <- family$family
  # These are lists, of one element too.
  for (name in intersect(names(more), c("columns", "metrics"))) more[[name]] <- as.list(more[[name]])
  arguments <- c(list(formula = text, eps = eps, family = family), more)
  asked <- list(dataset = data, verb = "glm", arguments = Filter(Negate(is.null), arguments))
  if (!is.null(label)) asked$label <- label
  json_text(asked)
}

dp_datasets <- function(office) {
  sets <- office_call(office, "/v1/datasets")$datasets
  pick <- function(name, what) vapply(sets, function(one) if (is.null(one[[name]])) what else one[[name]], what)
  left <- vapply(sets, function(one) if (is.null(one$left$eps)) NA_real_ else as.numeric(one$left$eps), 0)
  data.frame(name = pick("name", ""), title = pick("title", ""), eps_left = left)
}

dp_plan <- function(office, formula, data, eps, family = "gaussian", ..., label = NULL) {
  body <- as_request(formula, data, eps, family, label, list(...))
  structure(office_call(office, "/v1/plan", body), class = "dp_plan")
}

print.dp_plan <- function(x, ...) {
  cat(x$summary, "\n\nCosts eps = ", format(x$costs$eps), " of the ", format(x$left$eps), " that is left.\n", sep = "")
  invisible(x)
}

# The same call is the same release, paid for once, from wherever it comes. Another label asks for another one.
dp_glm <- function(office, formula, data, eps, family = "gaussian", ..., label = NULL) {
  body <- as_request(formula, data, eps, family, label, list(...))
  job <- office_call(office, "/v1/releases", body)
  if (attr(job, "status") == 200) {
    message("This is the release that was asked for before, paid for once; another label asks for another one.")
  }
  finish(office, job)
}

dp_release <- function(office, id) finish(office, office_call(office, release_path(id)))

dp_releases <- function(office) {
  made <- office_call(office, "/v1/releases")$releases
  text <- function(name) vapply(made, function(one) if (is.null(one[[name]])) NA_character_ else one[[name]], "")
  formula <- vapply(made, function(one) if (is.null(one$arguments$formula)) NA_character_ else one$arguments$formula, "")
  taken <- as.POSIXct(vapply(made, function(one) as.numeric(one$taken), 0), origin = "1970-01-01", tz = "UTC")
  data.frame(
    id = text("id"), dataset = text("dataset"), verb = text("verb"), formula = formula, label = text("label"),
    analyst = text("analyst"), state = text("state"), taken = taken
  )
}

release_path <- function(id, ...) {
  if (!is.character(id) || !grepl("^[0-9a-f]{32}$", id)) stop("id must be that of a release", call. = FALSE)
  paste0("/v1/releases/", id, ...)
}

# Wait until the office shows a release, and take its tables.
finish <- function(office, job) {
  pause <- 1
  while (job$state %in% c("waiting", "working")) {
    Sys.sleep(if (is.null(job$wait)) pause else max(0.05, job$wait))
    pause <- min(60, 1.5 * pause)
    job <- office_call(office, release_path(job$id))
  }
  if (job$state != "released") {
    message <- if (is.null(job$message)) paste("the request was", job$state) else sub("\\.$", "", job$message)
    again <- if (job$state == "refused") ". The same call stays refused; another label asks again" else ""
    stop(message, again, call. = FALSE)
  }
  as_model(office, job, office_call(office, release_path(job$id, "/table")))
}
